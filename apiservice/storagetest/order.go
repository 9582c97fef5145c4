// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// written are the changes that writers made, by resourceVersion.
type written struct {
	mu      sync.Mutex
	changes map[uint64]string
}

func (w *written) add(t *testing.T, kind watch.EventType, pod *example.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	version := parse(t, pod.ResourceVersion)
	assert.NotContains(t, w.changes, version, "two changes have one resourceVersion")
	w.changes[version] = string(kind) + " " + stateOf(pod)
}

// testOrder has writers change objects while watches run, from the beginning and from the middle.
func testOrder(ctx context.Context, t *testing.T, s storage.Interface) {
	const writers, rounds = 4, 20
	create(ctx, t, s, "first")
	start := list(ctx, t, s, storage.ListOptions{}).ResourceVersion
	follow := func(version string) watch.Interface {
		w, err := s.Watch(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: version})
		require.NoError(t, err)
		t.Cleanup(w.Stop)
		return w
	}
	early := follow(start)
	made := &written{changes: map[uint64]string{}}
	var wait sync.WaitGroup
	for writer := range writers {
		wait.Go(func() { write(ctx, t, s, made, "w"+strconv.Itoa(writer), rounds) })
	}
	during := follow(start)
	wait.Wait()
	if t.Failed() {
		return
	}
	require.Len(t, made.changes, writers*rounds*3)
	for name, w := range map[string]watch.Interface{
		"a watch from before the changes": early, "one that began among them": during, "one that began after them": follow(start),
	} {
		expectOrder(t, name, w, made.changes)
	}
}

// write creates, changes and deletes objects.
func write(ctx context.Context, t *testing.T, s storage.Interface, made *written, writer string, rounds int) {
	for round := range rounds {
		name := fmt.Sprintf("%s-%d", writer, round%2)
		out := &example.Pod{}
		pod := &example.Pod{}
		pod.Name, pod.Namespace = name, namespace
		if !assert.NoError(t, s.Create(ctx, keyOf(name), pod, out, 0)) {
			return
		}
		made.add(t, watch.Added, out)
		changed, err := set(ctx, s, name, strconv.Itoa(round))
		if !assert.NoError(t, err) {
			return
		}
		made.add(t, watch.Modified, changed)
		removed, err := remove(ctx, s, name)
		if !assert.NoError(t, err) {
			return
		}
		made.add(t, watch.Deleted, removed)
	}
}

// expectOrder reads all changes from a watch.
func expectOrder(t *testing.T, name string, w watch.Interface, changes map[uint64]string) {
	t.Helper()
	for _, version := range slices.Sorted(maps.Keys(changes)) {
		event := next(t, w)
		for event.Type == watch.Bookmark {
			event = next(t, w)
		}
		pod, ok := event.Object.(*example.Pod)
		require.True(t, ok, "%s has %s %v", name, event.Type, event.Object)
		require.Equal(t, changes[version], string(event.Type)+" "+stateOf(pod), "%s loses a change, doubles one, or has another order", name)
	}
}
