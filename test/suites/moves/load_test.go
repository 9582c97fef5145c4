// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	writing, ofEach, watching = 4, 20, 3
	value                     = "value"
)

// load writes objects, each writer its own, and follows all of them.
type load struct {
	of           custom
	client       dynamic.ResourceInterface
	writers      sync.WaitGroup
	endWrites    context.CancelFunc
	acknowledged atomic.Int64
	watchers     []*watcher

	mu sync.Mutex
	// values has the value of each object that a writer has left.
	values map[string]string
	wrong  []string
}

// unlimited returns a client without limits for the objects of the default namespace.
func unlimited(t *testing.T, of *rest.Config, c custom) dynamic.ResourceInterface {
	t.Helper()
	config := rest.CopyConfig(of)
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	return clientOf(t, config).Resource(c.GroupVersionResource).Namespace("default")
}

func startLoad(t *testing.T, config *rest.Config, of custom) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{of: of, client: unlimited(t, config, of), endWrites: stop, values: map[string]string{}}
	for n := range writing {
		client := unlimited(t, config, of)
		l.writers.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				name := fmt.Sprintf("w%d-%d", n, round%ofEach)
				for attempt := 0; attempt == 0 || ctx.Err() == nil; attempt++ {
					if l.write(client, name, strconv.Itoa(round)) == nil {
						l.acknowledged.Add(1)
						break
					}
				}
			}
		})
	}
	for range watching {
		l.watchers = append(l.watchers, follow(t, unlimited(t, config, of)))
	}
	return l
}

// write creates, changes or deletes an object. A write that has begun is acknowledged.
func (l *load) write(client dynamic.ResourceInterface, name, to string) error {
	ctx := context.Background()
	is, err := client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		l.expect(name, "")
		is = l.of.named(name)
		is.SetLabels(map[string]string{value: to})
		_, err = client.Create(ctx, is, metav1.CreateOptions{})
	case err != nil:
	case is.GetLabels()[value] == to: // an earlier attempt has succeeded
	case strings.HasSuffix(to, "7"):
		l.expect(name, is.GetLabels()[value])
		to, err = "", client.Delete(ctx, name, metav1.DeleteOptions{})
	default:
		l.expect(name, is.GetLabels()[value])
		is.SetLabels(map[string]string{value: to})
		_, err = client.Update(ctx, is, metav1.UpdateOptions{})
	}
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.values[name] = to; to == "" {
			delete(l.values, name)
		}
	}
	return err
}

// expect notes if an object is older than its writer has left it.
func (l *load) expect(name, is string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, _ := strconv.Atoi(is)
	want, _ := strconv.Atoi(l.values[name])
	if have < want && is != "" {
		l.wrong = append(l.wrong, fmt.Sprintf("%s is %q after %q", name, is, l.values[name]))
	}
}

// goOn waits for more writes.
func (l *load) goOn(t *testing.T) {
	t.Helper()
	const enough = 100
	before := l.acknowledged.Load()
	framework.Eventually(t, "writes go on", func(context.Context) error {
		if got := l.acknowledged.Load() - before; got < enough {
			return fmt.Errorf("%d writes since", got)
		}
		return nil
	})
}

// requireExpired requires that each watcher has had to list again at most so often.
func (l *load) requireExpired(t *testing.T, most int64) {
	t.Helper()
	for i, w := range l.watchers {
		assert.LessOrEqual(t, w.expired.Load(), most, "how often watcher %d had to list again", i)
	}
}

// finish ends the load, and compares what it has written with what there is, and with what its watchers have seen.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.endWrites()
	l.writers.Wait()
	list, err := l.client.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	stored, written := map[string]string{}, map[string]string{}
	for _, item := range list.Items {
		stored[item.GetName()] = item.GetLabels()[value]
		if strings.HasPrefix(item.GetName(), "w") {
			written[item.GetName()] = item.GetLabels()[value]
		}
	}
	assert.Equal(t, l.values, written, "what writers were told")
	assert.Empty(t, l.wrong)
	for i, w := range l.watchers {
		framework.Eventually(t, fmt.Sprintf("watcher %d sees all", i), func(context.Context) error { return w.differs(stored) })
		w.stop()
		w.running.Wait()
		assert.Empty(t, w.wrong, "what watcher %d saw", i)
	}
}

// watcher follows objects by list and watch, as an informer does.
type watcher struct {
	expired atomic.Int64
	running sync.WaitGroup
	stop    context.CancelFunc

	mu      sync.Mutex
	state   map[string]string
	version string
	wrong   []string
}

func follow(t *testing.T, client dynamic.ResourceInterface) *watcher {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &watcher{stop: stop}
	w.running.Go(func() {
		for relist := true; ctx.Err() == nil; {
			if relist && !w.list(ctx, client) {
				continue
			}
			relist = w.watch(ctx, client)
		}
	})
	return w
}

func (w *watcher) list(ctx context.Context, client dynamic.ResourceInterface) bool {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state, w.version = map[string]string{}, list.GetResourceVersion()
	for _, item := range list.Items {
		w.state[item.GetName()] = item.GetLabels()[value]
	}
	return true
}

// watch reports whether the watcher has to list again.
func (w *watcher) watch(ctx context.Context, client dynamic.ResourceInterface) (relist bool) {
	from, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: w.version})
	if err != nil {
		if apierrors.IsResourceExpired(err) {
			w.expired.Add(1)
			return true
		}
		return false
	}
	defer from.Stop()
	for event := range from.ResultChan() {
		if event.Type == watch.Error {
			if apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
				w.expired.Add(1)
				return true
			}
			return false
		}
		w.see(event)
	}
	return false
}

func (w *watcher) see(event watch.Event) {
	object := event.Object.(*unstructured.Unstructured)
	w.mu.Lock()
	defer w.mu.Unlock()
	name := object.GetName()
	if _, known := w.state[name]; known != (event.Type != watch.Added) {
		w.wrong = append(w.wrong, fmt.Sprintf("%s of %s, known before: %t", event.Type, name, known))
	}
	if w.state[name] = object.GetLabels()[value]; event.Type == watch.Deleted {
		delete(w.state, name)
	}
	w.version = object.GetResourceVersion()
}

// differs returns how what the watcher knows differs.
func (w *watcher) differs(from map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, is := range from {
		if w.state[name] != is {
			return fmt.Errorf("%s is %q, and %q for the watcher", name, is, w.state[name])
		}
	}
	if len(from) != len(w.state) {
		return fmt.Errorf("there are %d objects, and %d for the watcher", len(from), len(w.state))
	}
	return nil
}
