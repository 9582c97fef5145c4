// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

// worker reads, and writes objects of its own, at a steady pace.
type worker struct {
	client    *client
	resource  resource
	namespace string
	number    int
	random    *rand.Rand

	// name, version and value are those of the object that there is, or empty.
	name, version, value string
	objects              int
	// writes are those that had an effect, or may have had one.
	writes   []write
	requests int
	spans    []span
	failures []failure
}

// span is the time of a request.
type span struct {
	method, path string
	began, ended time.Time
}

func (s span) took() time.Duration { return s.ended.Sub(s.began) }

// write is what watchers must see.
type write struct {
	event, name, value string
	// version is not known of deletes, nor of what may have happened.
	version string
	// maybe is set where it is not known whether it happened.
	maybe bool
}

// failure is a request that did not get the answer that it should have.
type failure struct {
	span
	worker int
	code   int
	err    error
}

func (f failure) String() string {
	return fmt.Sprintf("%s worker %d, %s %s after %s: %v", f.began.Format("15:04:05.000"), f.worker, f.method, f.path, milliseconds(f.took()), f.err)
}

func (f failure) reads() bool { return f.method == http.MethodGet }

func newWorker(c *client, r resource, namespace string, number int) *worker {
	random := rand.New(rand.NewPCG(uint64(number), 1)) //nolint:gosec // what it does need not be a secret
	return &worker{client: c, resource: r, namespace: namespace, number: number, random: random}
}

// run works at its part of the rate.
func (w *worker) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second * workers / rate)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.work(context.WithoutCancel(ctx))
		}
	}
}

// work sends one request: a get in five of ten cases, a list in two.
func (w *worker) work(ctx context.Context) {
	collection, path := w.resource.collection(w.namespace), w.resource.path(w.namespace, w.name)
	switch dice := w.random.IntN(10); {
	case w.name == "":
		w.create(ctx)
	case dice < 5:
		w.read(ctx, path, w.value, w.version)
	case dice < 7:
		w.read(ctx, collection+"?limit=20", "", "")
	case dice < 9 || w.random.IntN(2) > 0:
		value := fmt.Sprintf("%d.%d", w.number, w.requests)
		if o, ok := w.send(ctx, http.MethodPut, path, w.resource.object(w.name, value, w.version), http.StatusOK); ok {
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

func (w *worker) create(ctx context.Context) {
	name, value := fmt.Sprintf("w%d-%d", w.number, w.objects), fmt.Sprintf("%d.%d", w.number, w.requests)
	w.objects++
	o, ok := w.send(ctx, http.MethodPost, w.resource.collection(w.namespace), w.resource.object(name, value, ""), http.StatusCreated)
	if ok {
		w.name, w.value, w.version = name, value, o.Metadata.ResourceVersion
	}
	w.writes = append(w.writes, write{event: "ADDED", name: name, value: value, version: o.Metadata.ResourceVersion, maybe: !ok})
}

// read reads an object, which nobody else writes, or a list.
func (w *worker) read(ctx context.Context, path, value, version string) {
	o, ok := w.send(ctx, http.MethodGet, path, nil, http.StatusOK)
	if ok && value != "" && (o.Data.Value != value || o.Metadata.ResourceVersion != version) {
		err := fmt.Errorf("%s@%s is read as %s@%s", value, version, o.Data.Value, o.Metadata.ResourceVersion)
		w.failures = append(w.failures, failure{span: w.spans[len(w.spans)-1], worker: w.number, err: err})
	}
}

func (w *worker) send(ctx context.Context, method, path string, body []byte, code int) (object, bool) {
	a, err := w.client.send(ctx, method, path, body)
	w.requests++
	took := span{method, path, a.began, a.ended}
	w.spans = append(w.spans, took)
	var o object
	if err == nil {
		err = a.expect(code)
	}
	if err == nil {
		o, err = decode(a.body)
	}
	if err != nil {
		w.failures = append(w.failures, failure{span: took, worker: w.number, code: a.code, err: err})
	}
	return o, err == nil
}

// theEnd is the name of the object that is written last.
const theEnd = "the-end"

// last writes the last object of the worker's resource.
func (w *worker) last(t testing.TB) {
	t.Helper()
	o := w.client.need(t, http.MethodPost, w.resource.collection(w.namespace), w.resource.object(theEnd, "the end", ""))
	w.writes = append(w.writes, write{event: "ADDED", name: theEnd, value: "the end", version: o.Metadata.ResourceVersion})
}
