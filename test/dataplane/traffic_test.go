// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// traffic is clients who read and write for a while, and others who watch all of it.
type traffic struct {
	namespace string
	workers   []*worker
	watchers  []*watcher

	stopWork, stopWatch context.CancelFunc
	working, watching   sync.WaitGroup
	began               time.Time
}

// rate is how many requests a second all workers send, and watchers how many watches there are, half of them of
// ConfigMaps.
const (
	workers  = 40
	rate     = 200
	watchers = 200
)

// startTraffic returns when all watches have begun.
func startTraffic(t testing.TB) *traffic {
	t.Helper()
	tr := &traffic{namespace: createNamespace(t), began: time.Now()}
	clients := newClients(t, 4)
	working, stopWork := context.WithCancel(t.Context())
	watching, stopWatch := context.WithCancel(t.Context())
	tr.stopWork, tr.stopWatch = stopWork, stopWatch

	of := func(i int) resource {
		if i%2 == 0 {
			return configMaps
		}
		return customs[i/2%len(customs)]
	}
	for i := range watchers {
		r, c := of(i), clients[i/8%len(clients)]
		w := &watcher{client: c, resource: r, path: r.collection(tr.namespace), bookmarks: i%16 < 8, started: make(chan struct{})}
		w.at = c.need(t, http.MethodGet, w.path, nil).Metadata.ResourceVersion
		tr.watchers = append(tr.watchers, w)
		tr.watching.Go(func() { w.run(watching) })
	}
	for _, w := range tr.watchers {
		<-w.started
	}
	for i := range workers {
		w := &worker{
			client: clients[i/8%len(clients)], resource: of(i), namespace: tr.namespace, number: i,
			random: rand.New(rand.NewPCG(uint64(i), 1)), //nolint:gosec // what it does need not be a secret
		}
		tr.workers = append(tr.workers, w)
		tr.working.Go(func() { w.run(working) })
	}
	t.Cleanup(func() {
		tr.stopWork()
		tr.stopWatch()
		tr.working.Wait()
		tr.watching.Wait()
	})
	return tr
}

// finish stops the workers, has all watchers see the end of what they wrote, and stops these.
func (tr *traffic) finish(t testing.TB) {
	t.Helper()
	tr.stopWork()
	tr.working.Wait()
	took := time.Since(tr.began)
	for _, r := range append([]resource{configMaps}, customs...) {
		i := slices.IndexFunc(tr.workers, func(w *worker) bool { return w.resource == r })
		tr.workers[i].last(t)
	}
	late := time.After(giveUp)
	for _, w := range tr.watchers {
		select {
		case <-w.done():
		case <-late:
			w.mu.Lock()
			t.Errorf("a watcher of %s at version %s does not see the end; problems: %.1000v", w.resource.plural, w.at, w.problems)
			w.mu.Unlock()
		}
	}
	tr.stopWatch()
	tr.watching.Wait()

	requests, ends, events := 0, 0, 0
	for _, w := range tr.workers {
		requests += w.requests
	}
	for _, w := range tr.watchers {
		ends += w.ends
		events += len(w.events)
	}
	t.Logf("%d requests in %.1f s (%.0f/s); %d watches, which ended %d times, saw %d events",
		requests, took.Seconds(), float64(requests)/took.Seconds(), len(tr.watchers), ends, events)
}

// failures returns what workers did not get.
func (tr *traffic) failures() []failure {
	var all []failure
	for _, w := range tr.workers {
		all = append(all, w.failures...)
	}
	slices.SortFunc(all, func(a, b failure) int { return a.began.Compare(b.began) })
	return all
}

// slowest returns the request that took longest of those that had something to do with a moment.
func (tr *traffic) slowest(at time.Time) time.Duration {
	var slowest time.Duration
	for _, w := range tr.workers {
		for _, span := range w.spans {
			if span.began.Before(at.Add(time.Second)) && span.ended.After(at) {
				slowest = max(slowest, span.ended.Sub(span.began))
			}
		}
	}
	return slowest
}

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

type span struct{ began, ended time.Time }

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
	method string
	path   string
	code   int
	err    error
}

func (f failure) String() string {
	return fmt.Sprintf("%s worker %d, %s %s after %s: %v", f.began.Format("15:04:05.000"), f.worker, f.method, f.path, milliseconds(f.ended.Sub(f.began)), f.err)
}

func (f failure) reads() bool { return f.method == http.MethodGet }

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
	w.writes = append(w.writes, write{event: "ADDED", name: name, value: value, version: w.version, maybe: !ok})
}

// read reads an object, which nobody else writes, or a list.
func (w *worker) read(ctx context.Context, path, value, version string) {
	o, ok := w.send(ctx, http.MethodGet, path, nil, http.StatusOK)
	if ok && value != "" && (o.Data.Value != value || o.Metadata.ResourceVersion != version) {
		err := fmt.Errorf("%s@%s is read as %s@%s", value, version, o.Data.Value, o.Metadata.ResourceVersion)
		w.failures = append(w.failures, failure{worker: w.number, method: http.MethodGet, path: path, err: err, span: w.spans[len(w.spans)-1]})
	}
}

func (w *worker) send(ctx context.Context, method, path string, body []byte, code int) (object, bool) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	a, err := w.client.send(ctx, method, path, body)
	w.requests++
	w.spans = append(w.spans, span{a.began, a.ended})
	var o object
	if err == nil {
		err = a.expect(code)
	}
	if err == nil {
		o, err = decode(a.body)
	}
	if err != nil {
		w.failures = append(w.failures, failure{worker: w.number, method: method, path: path, code: a.code, err: err, span: span{a.began, a.ended}})
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
