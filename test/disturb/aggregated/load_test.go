// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/tripod-k8s/tripod/test/framework"
)

var flunders = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "flunders"}

// clients is how many there are at a time.
const clients = 8

// load is clients that use the server through both aggregators, and do not repeat anything. Each makes an object, reads,
// changes and lists, and removes every second object.
type load struct {
	namespace string
	stop      context.CancelFunc
	working   sync.WaitGroup

	mu sync.Mutex
	// counts are requests by method, and failures what some got instead of an answer.
	counts   map[string]int
	failures []failure
	// created and removed are the names of objects. A request about an uncertain one got no answer.
	created, removed, uncertain map[string]bool
}

type failure struct {
	method, path, what string
	// broken is set when the answer reports that the connection to the server broke.
	broken bool
}

func (f failure) String() string { return f.method + " " + f.path + ": " + f.what }

// startLoad has clients work until finish is called.
func startLoad(t *testing.T, s *server) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{
		namespace: s.Namespace, stop: stop, counts: map[string]int{},
		created: map[string]bool{}, removed: map[string]bool{}, uncertain: map[string]bool{},
	}
	run := framework.UniqueName("f")
	for i := range clients {
		config := fleet.Through(aggregators[i%len(aggregators)]).Admin()
		client, err := rest.HTTPClientFor(config)
		require.NoError(t, err)
		c := &worker{load: l, client: client, url: config.Host}
		l.working.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c.turn(context.WithoutCancel(ctx), fmt.Sprintf("%s-%d-%d", run, i, n), n%2 == 0)
			}
		})
	}
	t.Cleanup(l.finish)
	return l
}

// finish returns when the clients have stopped.
func (l *load) finish() {
	l.stop()
	l.working.Wait()
}

// awaitRequests returns when some more requests were answered than there were.
func (l *load) awaitRequests(t testing.TB, more int) {
	t.Helper()
	before := l.total()
	framework.Eventually(t, "clients make progress", func(context.Context) error {
		if now := l.total(); now < before+more {
			return fmt.Errorf("%d of %d requests were answered", now-before, more)
		}
		return nil
	})
}

func (l *load) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0
	for _, n := range l.counts {
		sum += n
	}
	return sum
}

// worker is one client.
type worker struct {
	load   *load
	client *http.Client
	url    string
}

func (w *worker) turn(ctx context.Context, name string, remove bool) {
	all := "/apis/" + group + "/v1alpha1/namespaces/" + w.load.namespace + "/flunders"
	one := all + "/" + name
	body := fmt.Sprintf(`{"apiVersion":"%s/v1alpha1","kind":"Flunder","metadata":{"name":%q}}`, group, name)
	if !w.send(ctx, http.MethodPost, all, body, http.StatusCreated) {
		w.load.note(w.load.uncertain, name)
		return
	}
	w.load.note(w.load.created, name)
	w.send(ctx, http.MethodGet, one, "", http.StatusOK)
	w.send(ctx, http.MethodPatch, one, `{"metadata":{"labels":{"changed":"yes"}}}`, http.StatusOK)
	w.send(ctx, http.MethodGet, all+"?limit=5", "", http.StatusOK)
	if !remove {
		return
	}
	if w.send(ctx, http.MethodDelete, one, "", http.StatusOK) {
		w.load.note(w.load.removed, name)
	} else {
		w.load.note(w.load.uncertain, name)
	}
}

func (l *load) note(names map[string]bool, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	names[name] = true
}

// send counts a request, and reports whether it was answered as it should be.
func (w *worker) send(ctx context.Context, method, path, body string, want int) bool {
	code, text, err := w.try(ctx, method, path, body)
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	w.load.counts[method]++
	if err == nil && code == want {
		return true
	}
	w.load.failures = append(w.load.failures, failure{
		method: method, path: path, what: fmt.Sprintf("%d %s %v", code, text, err), broken: code == http.StatusBadGateway,
	})
	return false
}

func (w *worker) try(ctx context.Context, method, path, body string) (code int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), errors.Join(err, resp.Body.Close())
}

// everythingWasServed checks that all requests were, but for some writes that were with an endpoint when it was killed.
func (l *load) everythingWasServed(t testing.TB, mayBreak int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	broken := 0
	for _, f := range l.failures {
		if f.broken && f.method != http.MethodGet {
			broken++
			t.Log("on the wire when the endpoint died: ", f)
		} else {
			t.Error(f)
		}
	}
	if broken > mayBreak {
		t.Errorf("%d writes failed; %d could have been with the endpoint that died", broken, mayBreak)
	}
	var counts []string
	for _, method := range slices.Sorted(maps.Keys(l.counts)) {
		counts = append(counts, fmt.Sprintf("%s %d", method, l.counts[method]))
		if l.counts[method] == 0 {
			t.Errorf("there was no %s", method)
		}
	}
	t.Logf("requests: %s; failed: %d", strings.Join(counts, ", "), len(l.failures))
}

// everythingIsThere checks that the server has the objects that clients made and did not remove.
func (l *load) everythingIsThere(t testing.TB) {
	t.Helper()
	list, err := flunderClient(t, aggregators[0]).Namespace(l.namespace).List(t.Context(), metav1.ListOptions{})
	there := map[string]bool{}
	require.NoError(t, err)
	for _, object := range list.Items {
		there[object.GetName()] = true
	}
	for name := range l.created {
		if want := !l.removed[name]; there[name] != want && !l.uncertain[name] {
			t.Errorf("%s is there: %v, want %v", name, there[name], want)
		}
	}
}

func flunderClient(t testing.TB, aggregator string) dynamic.NamespaceableResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(fleet.Through(aggregator).Admin())
	require.NoError(t, err)
	return client.Resource(flunders)
}

// follower watches, and goes on where it was when the watch ends.
type follower struct {
	watching sync.WaitGroup
	watcher  *toolswatch.RetryWatcher

	mu sync.Mutex
	// added counts how often objects appeared, by name, and errors are those that a watch ended with.
	added  map[string]int
	errors []string
}

func follow(t testing.TB, namespace, aggregator string) *follower {
	t.Helper()
	client := flunderClient(t, aggregator).Namespace(namespace)
	list, err := client.List(t.Context(), metav1.ListOptions{})
	f := &follower{added: map[string]int{}}
	require.NoError(t, err)
	watcher, err := toolswatch.NewRetryWatcherWithContext(t.Context(), list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	})
	require.NoError(t, err)
	f.watcher = watcher
	f.watching.Go(func() {
		for event := range f.watcher.ResultChan() {
			f.mu.Lock()
			if object, ok := event.Object.(metav1.Object); ok && event.Type == watch.Added {
				f.added[object.GetName()]++
			} else if event.Type == watch.Error {
				f.errors = append(f.errors, fmt.Sprint(event.Object))
			}
			f.mu.Unlock()
		}
	})
	t.Cleanup(f.stop)
	return f
}

func (f *follower) stop() {
	f.watcher.Stop()
	f.watching.Wait()
}

// sawAll waits until every object that was made has appeared, once.
func (f *follower) sawAll(t testing.TB, l *load) {
	t.Helper()
	framework.Eventually(t, "the watch has seen all objects", func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for name := range l.created {
			if f.added[name] == 0 {
				return fmt.Errorf("%s did not appear", name)
			}
		}
		return nil
	})
	f.stop()
	for name, n := range f.added {
		if n > 1 {
			t.Errorf("%s appeared %d times", name, n)
		}
	}
	for _, e := range f.errors {
		t.Errorf("the watch ended with %s", e)
	}
	t.Logf("the watch saw %d objects appear", len(f.added))
}
