// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
)

// Traffic is a number of workers, which read and write, and of watchers, which watch what workers write.
type Traffic struct {
	// namespace is the namespace of the workers. In quiet, nothing changes until the end.
	namespace, quiet string
	customs          []Resource
	workers          []*Worker
	watchers         []*watcher

	stopWork, stopWatch context.CancelFunc
	working, watching   sync.WaitGroup
	began               time.Time
}

// Options are the options of Start. An option that is 0 has a default.
type Options struct {
	// Customs are the custom resources to use. The cluster must have them. Without any, all clients use ConfigMaps.
	Customs []Resource
	// Rate is the number of requests a second of all workers, by default 200. On a busy machine, they send fewer.
	Rate int
	// Workers is the number of clients that read and write, by default 40.
	Workers int
	// Watchers is the number of watches, by default 200. Half of them watch ConfigMaps. A fifth is in a namespace in which nothing changes.
	Watchers int
	// Long is set if the clients go on for longer than etcd keeps its history, 5 minutes. All watches in the namespace in which nothing changes
	// then have bookmarks: without, no API server can resume them.
	Long bool
	// Connections is the number of connections to each address, by default 4.
	Connections int
}

func (o Options) withDefaults() Options {
	o.Rate = cmp.Or(o.Rate, 200)
	o.Workers = cmp.Or(o.Workers, 40)
	o.Watchers = cmp.Or(o.Watchers, 200)
	o.Connections = cmp.Or(o.Connections, 4)
	return o
}

// Start starts workers and watchers, which use the addresses of a cluster in turn. It returns when all watches have begun.
func Start(t testing.TB, options Options, addresses ...*rest.Config) *Traffic {
	t.Helper()
	options = options.withDefaults()
	customs := options.Customs
	var clients []*Client
	for _, address := range addresses {
		clients = append(clients, NewClient(t, address, options.Connections))
	}
	tr := &Traffic{customs: customs, namespace: newNamespace(t, clients[0]), quiet: newNamespace(t, clients[0])}
	// Every second object is a ConfigMap, each client uses all resources, and half of the watches of each resource have bookmarks.
	resourceOf := func(i int) Resource {
		if i%2 == 0 || len(customs) == 0 {
			return ConfigMaps
		}
		return customs[i/2%len(customs)]
	}
	perClient := 2 * max(len(customs), 1)
	clientOf := func(i int) *Client { return clients[i/perClient%len(clients)] }
	bookmarks := func(i int) bool { return i/(perClient*len(clients))%2 > 0 }
	working, stopWork := context.WithCancel(t.Context())
	watching, stopWatch := context.WithCancel(t.Context())
	tr.stopWork, tr.stopWatch = stopWork, stopWatch
	t.Cleanup(tr.stop)
	for i := range options.Watchers {
		namespace, isQuiet := tr.namespace, i < options.Watchers/5
		if isQuiet {
			namespace = tr.quiet
		}
		w := newWatcher(t, clientOf(i), resourceOf(i), namespace, bookmarks(i) || isQuiet && options.Long)
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
	for i := range options.Workers {
		w := NewWorker(clientOf(i), resourceOf(i), tr.namespace, i)
		tr.workers = append(tr.workers, w)
		tr.working.Go(func() { w.Run(working, time.Second*time.Duration(options.Workers)/time.Duration(options.Rate)) })
	}
	return tr
}

// newNamespace creates a namespace. It disappears with the cluster.
func newNamespace(t testing.TB, c *Client) string {
	t.Helper()
	name := "traffic-" + utilrand.String(6)
	c.Need(t, http.MethodPost, "/api/v1/namespaces", encode(map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": name},
	}))
	return name
}

// stop ends all clients.
func (tr *Traffic) stop() {
	tr.stopWork()
	tr.working.Wait()
	tr.stopWatch()
	tr.watching.Wait()
}

// Finish stops the workers, waits until all watchers have seen the last write, and stops the watchers.
func (tr *Traffic) Finish(t testing.TB) {
	t.Helper()
	tr.stopWork()
	tr.working.Wait()
	took := time.Since(tr.began)
	for _, r := range append([]Resource{ConfigMaps}, tr.customs...) {
		for _, namespace := range []string{tr.namespace, tr.quiet} {
			w := &Worker{client: tr.workers[0].client, resource: r, namespace: namespace}
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

	requests, ends, events := tr.Requests(), 0, 0
	for _, w := range tr.watchers {
		ends += w.ends
		events += len(w.events)
	}
	t.Logf("%d requests in %.1f s (%.0f/s); %d watches, which ended %d times, saw %d events",
		requests, took.Seconds(), float64(requests)/took.Seconds(), len(tr.watchers), ends, events)
}

// Requests returns the number of requests that workers have sent.
func (tr *Traffic) Requests() int64 {
	sum := int64(0)
	for _, w := range tr.workers {
		sum += w.requests.Load()
	}
	return sum
}

// Progress returns when workers have got n more answers.
func (tr *Traffic) Progress(t testing.TB, n int64) {
	t.Helper()
	late := time.After(giveUp)
	for end := tr.Requests() + n; tr.Requests() < end; {
		select {
		case <-late:
			t.Fatalf("clients sent %d of %d requests", n-end+tr.Requests(), n)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Failures returns the failed requests of all workers.
func (tr *Traffic) Failures() []Failure {
	var all []Failure
	for _, w := range tr.workers {
		all = append(all, w.Failures...)
	}
	slices.SortFunc(all, func(a, b Failure) int { return a.Began.Compare(b.Began) })
	return all
}

// FailsNever expects that no request failed.
func (tr *Traffic) FailsNever(t testing.TB) {
	t.Helper()
	for _, f := range tr.Failures() {
		t.Error(f)
	}
}

// FailsOnlyWrites expects that only writes failed, at most one of each worker, and each in a way that expected accepts. It returns of how
// many workers one failed.
func (tr *Traffic) FailsOnlyWrites(t testing.TB, expected func(Failure) bool) int {
	t.Helper()
	writes := map[int]int{}
	for _, f := range tr.Failures() {
		if f.Reads() || !expected(f) {
			t.Error(f)
			continue
		}
		writes[f.Worker]++
	}
	for worker, n := range writes {
		if n > 1 {
			t.Errorf("%d writes of worker %d failed, want at most 1", n, worker)
		}
	}
	return len(writes)
}

// Slowest returns the request that took longest, of those that were in flight within the second after a time.
func (tr *Traffic) Slowest(at time.Time) Span {
	var slowest Span
	for _, w := range tr.workers {
		for _, s := range w.Spans {
			if s.Began.Before(at.Add(time.Second)) && s.Ended.After(at) && s.Took() > slowest.Took() {
				slowest = s
			}
		}
	}
	return slowest
}
