// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
)

// giveUp ends a wait that would never end; it says nothing about how fast anything is.
const giveUp = time.Minute

// follower watches a resource, and goes on from the last resourceVersion when a watch ends.
type follower struct {
	resource string
	watcher  *watchtools.RetryWatcher
	ended    chan struct{}

	mu sync.Mutex
	// seen are the types of the events of each object.
	seen map[string][]watch.EventType
	// unseen are objects that have been created and deleted while their deletion has not arrived.
	unseen []string
	// news is closed and replaced by each event.
	news chan struct{}
	errs []error
}

// follow starts a watch of the objects of a resource that do not exist yet.
func (c *Clients) follow(t testing.TB, resource schema.GroupVersionResource) *follower {
	t.Helper()
	objects := c.client.Resource(resource).Namespace(c.namespace)
	list, err := objects.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	f := &follower{
		resource: resource.String(), ended: make(chan struct{}), seen: map[string][]watch.EventType{}, news: make(chan struct{}),
	}
	f.watcher, err = watchtools.NewRetryWatcherWithContext(context.WithoutCancel(t.Context()), list.GetResourceVersion(), watchFunc(objects.Watch))
	require.NoError(t, err)
	c.watches = append(c.watches, f)
	go func() {
		defer close(f.ended)
		for event := range f.watcher.ResultChan() {
			f.take(event)
		}
	}()
	return f
}

type watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)

func (w watchFunc) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return w(ctx, options)
}

func (f *follower) take(event watch.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	object, err := meta.Accessor(event.Object)
	if event.Type == watch.Error || err != nil {
		f.errs = append(f.errs, fmt.Errorf("%s %v", event.Type, event.Object))
		return
	}
	f.seen[object.GetName()] = append(f.seen[object.GetName()], event.Type)
	close(f.news)
	f.news = make(chan struct{})
}

// expect says that an object has been created and deleted.
func (f *follower) expect(object string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unseen = append(f.unseen, object)
}

// stop ends the watch when it has seen everything, and reports what it has not.
func (f *follower) stop(failed func(error)) {
	deadline := time.After(giveUp)
	for waiting := true; waiting; {
		f.mu.Lock()
		f.unseen = slices.DeleteFunc(f.unseen, func(object string) bool { return slices.Contains(f.seen[object], watch.Deleted) })
		left, news := len(f.unseen), f.news
		f.mu.Unlock()
		if left == 0 {
			break
		}
		select {
		case <-news:
		case <-f.ended:
			waiting = false
		case <-deadline:
			waiting = false
		}
	}
	f.watcher.Stop()
	<-f.ended
	for _, err := range f.faults() {
		failed(err)
	}
}

// faults returns what the watch has not seen as it happened: each object is created once, changed perhaps, and deleted.
func (f *follower) faults() []error {
	faults := f.errs
	if len(f.unseen) > 0 {
		faults = append(faults, fmt.Errorf("it has not seen the end of %d objects, such as %s", len(f.unseen), f.unseen[0]))
	}
	if len(f.seen) == 0 {
		faults = append(faults, errors.New("it has seen nothing"))
	}
	for object, events := range f.seen {
		last := len(events) - 1
		for i, event := range events {
			if (event == watch.Added) != (i == 0) || event == watch.Deleted && i != last {
				faults = append(faults, fmt.Errorf("of %s it has seen %v", object, events))
				break
			}
		}
	}
	return faults
}
