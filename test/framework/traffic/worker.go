// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Worker reads and writes at a steady rate. It writes only objects of its own.
type Worker struct {
	client    *Client
	resource  Resource
	namespace string
	number    int
	random    *rand.Rand

	// name, version and value are those of the object that exists now. They are empty without one.
	name, version, value string
	objects              int
	// writes are the writes that had an effect, or may have had one.
	writes   []write
	requests atomic.Int64
	// Spans are the times of all requests, and Failures the failed requests.
	Spans    []Span
	Failures []Failure
	// Failed is called for each failure, unless it is nil.
	Failed func(Failure)
}

// Span is the time from the start of a request to the end of its answer.
type Span struct {
	Method, Path string
	Began, Ended time.Time
}

// Took returns the duration.
func (s Span) Took() time.Duration { return s.Ended.Sub(s.Began) }

// write is a write that watchers must see as an event.
type write struct {
	event, name, value string
	// version is empty for a delete, and for a write that got no answer.
	version string
	// maybe is set if the write got no answer, so it may or may not have happened.
	maybe bool
}

// Failure is a request that got no answer, or not the expected one.
type Failure struct {
	Span
	Worker int
	// Code is the status of the answer, or 0 without one.
	Code int
	// Wrong is set if the answer has another value than the one that this worker wrote last.
	Wrong bool
	Err   error
}

func (f Failure) String() string {
	return fmt.Sprintf("%s worker %d, %s %s after %s: %v", f.Began.Format("15:04:05.000"), f.Worker, f.Method, f.Path, f.Took().Round(100*time.Microsecond), f.Err)
}

// Reads returns whether the request was a read.
func (f Failure) Reads() bool { return f.Method == http.MethodGet }

// NewWorker returns a worker. Workers in the same namespace need different numbers.
func NewWorker(c *Client, r Resource, namespace string, number int) *Worker {
	random := rand.New(rand.NewPCG(uint64(number), 1))
	return &Worker{client: c, resource: r, namespace: namespace, number: number, random: random}
}

// Run sends requests at a steady rate until ctx ends. It finishes the request in flight.
func (w *Worker) Run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.Work(context.WithoutCancel(ctx))
		}
	}
}

// Work sends one request: five of ten are GETs, two are LISTs.
func (w *Worker) Work(ctx context.Context) {
	collection, path := w.resource.Collection(w.namespace), w.resource.Path(w.namespace, w.name)
	switch dice := w.random.IntN(10); {
	case w.name == "":
		w.create(ctx)
	case dice < 5:
		w.read(ctx, path, w.value, w.version)
	case dice < 7:
		w.read(ctx, collection+"?limit=20", "", "")
	case dice < 9 || w.random.IntN(2) > 0:
		value := fmt.Sprintf("%d.%d", w.number, w.requests.Load())
		if o, ok := w.send(ctx, http.MethodPut, path, w.resource.Object(w.name, value, w.version), http.StatusOK); ok {
			w.version, w.value = o.Metadata.ResourceVersion, value
			w.writes = append(w.writes, write{event: "MODIFIED", name: w.name, value: value, version: w.version})
		} else {
			w.writes = append(w.writes, write{event: "MODIFIED", name: w.name, value: value, maybe: true})
			w.name = ""
		}
	default:
		_, ok := w.send(ctx, http.MethodDelete, path, nil, http.StatusOK)
		w.writes = append(w.writes, write{event: "DELETED", name: w.name, value: w.value, maybe: !ok})
		w.name = ""
	}
}

func (w *Worker) create(ctx context.Context) {
	name, value := fmt.Sprintf("w%d-%d", w.number, w.objects), fmt.Sprintf("%d.%d", w.number, w.requests.Load())
	w.objects++
	o, ok := w.send(ctx, http.MethodPost, w.resource.Collection(w.namespace), w.resource.Object(name, value, ""), http.StatusCreated)
	if ok {
		w.name, w.value, w.version = name, value, o.Metadata.ResourceVersion
	}
	w.writes = append(w.writes, write{event: "ADDED", name: name, value: value, version: o.Metadata.ResourceVersion, maybe: !ok})
}

// read reads an object of this worker, or a list.
func (w *Worker) read(ctx context.Context, path, value, version string) {
	o, ok := w.send(ctx, http.MethodGet, path, nil, http.StatusOK)
	if ok && value != "" && (o.Data.Value != value || o.Metadata.ResourceVersion != version) {
		err := fmt.Errorf("%s@%s is read as %s@%s", value, version, o.Data.Value, o.Metadata.ResourceVersion)
		w.fails(Failure{Span: w.Spans[len(w.Spans)-1], Worker: w.number, Wrong: true, Err: err})
	}
}

func (w *Worker) send(ctx context.Context, method, path string, body []byte, code int) (Object, bool) {
	a, err := w.client.Send(ctx, method, path, body)
	w.requests.Add(1)
	took := Span{method, path, a.Began, a.Ended}
	w.Spans = append(w.Spans, took)
	var o Object
	if err == nil {
		err = a.Expect(code)
	}
	if err == nil {
		o, err = Decode(a.Body)
	}
	if err != nil {
		w.fails(Failure{Span: took, Worker: w.number, Code: a.Code, Err: err})
	}
	return o, err == nil
}

func (w *Worker) fails(f Failure) {
	w.Failures = append(w.Failures, f)
	if w.Failed != nil {
		w.Failed(f)
	}
}

// theEnd is the name of the object that is written last.
const theEnd = "the-end"

// last writes the last object of the worker's resource.
func (w *Worker) last(t testing.TB) {
	t.Helper()
	o := w.client.Need(t, http.MethodPost, w.resource.Collection(w.namespace), w.resource.Object(theEnd, "the end", ""))
	w.writes = append(w.writes, write{event: "ADDED", name: theEnd, value: "the end", version: o.Metadata.ResourceVersion})
}
