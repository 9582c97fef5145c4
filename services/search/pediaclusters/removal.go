// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// removalsAtOnce is how many clusters are removed at the same time.
const removalsAtOnce = 2

// removals remove clusters from the database beside all else: a large one takes a minute and more.
type removals struct {
	from  func(ctx context.Context, cluster string) error
	group wait.Group
	slots chan struct{}

	mu     sync.Mutex
	goesOn map[string]*removal
}

// removal is over when done is closed.
type removal struct {
	done chan struct{}
	err  error
}

func newRemovals(from func(ctx context.Context, cluster string) error) *removals {
	return &removals{from: from, slots: make(chan struct{}, removalsAtOnce), goesOn: map[string]*removal{}}
}

// begin removes a cluster, or returns the removal that goes on.
func (r *removals) begin(ctx context.Context, cluster string) *removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.goesOn[cluster]; one != nil {
		return one
	}
	one := &removal{done: make(chan struct{})}
	r.goesOn[cluster] = one
	r.group.Start(func() {
		defer close(one.done)
		defer r.end(cluster)
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
			one.err = r.from(ctx, cluster)
		case <-ctx.Done():
			one.err = ctx.Err()
		}
		if one.err != nil && ctx.Err() == nil {
			klog.ErrorS(one.err, "Cannot remove a cluster", "cluster", cluster)
		}
	})
	return one
}

func (r *removals) end(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.goesOn, cluster)
}

// going reports whether the removal of a cluster goes on. Nothing may be written about a cluster of that name meanwhile.
func (r *removals) going(cluster string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.goesOn[cluster] != nil
}

// remove removes a cluster, and reports whether that was done when it is or the context ends.
func (r *removals) remove(ctx, waiting context.Context, cluster string) bool {
	one := r.begin(ctx, cluster)
	select {
	case <-one.done:
		return one.err == nil
	case <-waiting.Done():
	}
	select {
	case <-one.done:
		return one.err == nil
	default:
		return false
	}
}
