// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// traffic is clients who read and write for a while, and others who watch all of it.
type traffic struct {
	// namespace is where workers work. In the other one nothing happens until the end.
	namespace, quiet string
	customs          []resource
	workers          []*worker
	watchers         []*watcher

	stopWork, stopWatch context.CancelFunc
	working, watching   sync.WaitGroup
	began               time.Time
}

const (
	// rate is how many requests a second all workers send. A machine that is too busy for that sends less.
	rate    = 200
	workers = 40
	// watchers is how many watches there are, half of them of ConfigMaps; of these, quiet are in the quiet namespace.
	watchers = 200
	quiet    = 40
	// connections is how many each client has.
	connections = 4
)

// startTraffic has clients of the addresses of a cluster, who use ConfigMaps and custom resources, and returns when all watches
// have begun.
func startTraffic(t testing.TB, customs []resource, addresses ...*framework.Cluster) *traffic {
	t.Helper()
	tr := &traffic{customs: customs, namespace: framework.CreateNamespace(t, addresses[0]), quiet: framework.CreateNamespace(t, addresses[0])}
	var clients []*client
	for _, address := range addresses {
		clients = append(clients, newClient(t, address, connections))
	}
	// Every second object is a ConfigMap, each client has all resources, and half of the watches of each have bookmarks.
	resourceOf := func(i int) resource {
		if i%2 == 0 {
			return configMaps
		}
		return customs[i/2%len(customs)]
	}
	clientOf := func(i int) *client { return clients[i/(2*len(customs))%len(clients)] }
	bookmarks := func(i int) bool { return i/(2*len(customs)*len(clients))%2 > 0 }
	working, stopWork := context.WithCancel(t.Context())
	watching, stopWatch := context.WithCancel(t.Context())
	tr.stopWork, tr.stopWatch = stopWork, stopWatch
	t.Cleanup(tr.stop)
	for i := range watchers {
		namespace := tr.namespace
		if i < quiet {
			namespace = tr.quiet
		}
		w := newWatcher(t, clientOf(i), resourceOf(i), namespace, bookmarks(i))
		tr.watchers = append(tr.watchers, w)
		tr.watching.Go(func() { w.run(watching) })
	}
	for _, w := range tr.watchers {
		select {
		case <-w.started:
		case <-w.lost:
		}
	}
	tr.began = time.Now()
	for i := range workers {
		w := newWorker(clientOf(i), resourceOf(i), tr.namespace, i)
		tr.workers = append(tr.workers, w)
		tr.working.Go(func() { w.run(working) })
	}
	return tr
}

// stop ends all clients.
func (tr *traffic) stop() {
	tr.stopWork()
	tr.working.Wait()
	tr.stopWatch()
	tr.watching.Wait()
}

// finish stops the workers, has all watchers see the end of what they wrote, and stops these.
func (tr *traffic) finish(t testing.TB) {
	t.Helper()
	tr.stopWork()
	tr.working.Wait()
	took := time.Since(tr.began)
	for _, r := range append([]resource{configMaps}, tr.customs...) {
		for _, namespace := range []string{tr.namespace, tr.quiet} {
			w := &worker{client: tr.workers[0].client, resource: r, namespace: namespace}
			w.last(t)
			tr.workers = append(tr.workers, w)
		}
	}
	late, cancel := context.WithTimeout(t.Context(), giveUp)
	defer cancel()
	for _, w := range tr.watchers {
		w.awaitEnd(late)
	}
	tr.stop()

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

// failsNever expects that all requests were served.
func (tr *traffic) failsNever(t testing.TB) {
	t.Helper()
	for _, f := range tr.failures() {
		t.Error(f)
	}
}

// slowest returns the request that took longest of those that were under way in the second after a moment.
func (tr *traffic) slowest(at time.Time) span {
	var slowest span
	for _, w := range tr.workers {
		for _, s := range w.spans {
			if s.began.Before(at.Add(time.Second)) && s.ended.After(at) && s.took() > slowest.took() {
				slowest = s
			}
		}
	}
	return slowest
}
