// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watchcache

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// fixture is a watch cache of a store with two kinds.
type fixture struct {
	*Cache
	location string
	streams  map[string]*streams.Stream
	kinds    map[string]int64
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{location: storetest.SQLite(t), streams: map[string]*streams.Stream{}, kinds: map[string]int64{}}
	s, err := store.Open(f.location)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	for _, resource := range []string{"pods", "nodes"} {
		kind := streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: resource}, Name: resource}
		f.streams[resource], err = s.OpenStream(t.Context(), "one", kind)
		require.NoError(t, err)
		ids, err := s.KindIDs(t.Context(), []schema.GroupVersionResource{kind.GroupVersionResource})
		require.NoError(t, err)
		f.kinds[resource] = ids[0]
	}
	f.Cache = New(s)
	return f
}

func (f *fixture) write(t *testing.T, resource string, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprint(time.Now().UnixNano(), "-", i)
		o := store.Object{Name: name, ResourceVersion: "1", JSON: fmt.Appendf(nil, `{"metadata": {"name": %q}}`, name)}
		require.NoError(t, f.store.Write(t.Context(), f.streams[resource], store.Batch{Changes: []store.Change{{Object: o}}}))
	}
}

func (f *fixture) watch(t *testing.T, resources ...string) *Subscription {
	t.Helper()
	var kinds []int64
	for _, resource := range resources {
		kinds = append(kinds, f.kinds[resource])
	}
	s := f.Subscribe(kinds)
	t.Cleanup(s.Close)
	return s
}

// always is an Acquire that never waits.
func always(context.Context) (release func(), err error) { return func() {}, nil }

// until returns the revisions that follow a revision up to another one.
func until(t *testing.T, s *Subscription, at, last int64) (revisions []int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for at < last {
		h, news, err := s.Next(ctx, at, nil, database.Bounds{}, always)
		require.NoError(t, err)
		for _, one := range h.Transitions {
			revisions = append(revisions, one.Revision)
		}
		if h.UpTo == at {
			select {
			case <-news:
			case <-ctx.Done():
				require.FailNow(t, "nothing new", "at %d", at)
			}
		}
		at = h.UpTo
	}
	return revisions
}

// knows returns when memory has a revision.
func (f *fixture) knows(t *testing.T, revision int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.top >= revision
	}, time.Minute, time.Millisecond)
}

func TestEachWatchGetsTheTransitionsOfItsKinds(t *testing.T) {
	f := newFixture(t)
	f.write(t, "pods", 2) // 1, 2
	pods := f.watch(t, "pods")
	f.write(t, "nodes", 1) // 3
	f.write(t, "pods", 1)  // 4
	f.knows(t, 4)
	nodes, both := f.watch(t, "nodes"), f.watch(t, "nodes", "pods")
	f.write(t, "nodes", 1) // 5
	f.write(t, "pods", 1)  // 6
	assert.Equal(t, []int64{1, 2, 4, 6}, until(t, pods, 0, 6))
	assert.Equal(t, []int64{3, 5}, until(t, nodes, 0, 6))
	f.knows(t, 6)
	assert.Equal(t, []int64{2, 3, 4, 5, 6}, until(t, both, 1, 6))
	assert.Equal(t, []int64{5, 6}, until(t, both, 4, 6))
}

func TestAWatchThatComesAfterAPauseMissesNothing(t *testing.T) {
	f := newFixture(t)
	for i := range int64(5) {
		s := f.Subscribe([]int64{f.kinds["pods"]})
		f.write(t, "pods", 1)
		assert.Equal(t, []int64{i*2 + 1}, until(t, s, i*2, i*2+1))
		s.Close()
		f.write(t, "pods", 1)
		s = f.Subscribe([]int64{f.kinds["pods"]})
		assert.Equal(t, []int64{i*2 + 2}, until(t, s, i*2+1, i*2+2))
		s.Close()
	}
}

func TestASlowWatchReadsTheDatabase(t *testing.T) {
	f := newFixture(t)
	f.keptBytes = 3000
	slow := f.watch(t, "pods")
	f.write(t, "pods", 1)
	until(t, slow, 0, 1)
	f.write(t, "pods", 20)
	f.knows(t, 21)
	f.mu.Lock()
	assert.Greater(t, f.floor, int64(5), "memory is bounded")
	assert.LessOrEqual(t, f.size, 3000)
	assert.NotEmpty(t, f.kept)
	f.mu.Unlock()
	assert.Len(t, until(t, slow, 1, 21), 20)
}

func TestWatchesEndIfTheDatabaseGoesBack(t *testing.T) {
	f := newFixture(t)
	s := f.watch(t, "pods")
	f.write(t, "pods", 3)
	until(t, s, 0, 3)
	f.knows(t, 3)
	raw, err := sql.Open("sqlite", strings.TrimPrefix(f.location, "sqlite:"))
	require.NoError(t, err)
	defer raw.Close()
	_, err = raw.Exec("UPDATE revisions SET last = 1")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, err = s.Next(t.Context(), 3, nil, database.Bounds{}, always)
		return err != nil
	}, time.Minute, 5*time.Millisecond)
	require.ErrorIs(t, err, ErrReplaced)
	_, _, err = f.watch(t, "pods").Next(t.Context(), 3, nil, database.Bounds{}, always)
	assert.ErrorIs(t, err, history.ErrFuture)
	h, _, err := f.watch(t, "pods").Next(t.Context(), 1, nil, database.Bounds{}, always)
	require.NoError(t, err)
	assert.EqualValues(t, 1, h.UpTo)
}

func TestWatchesEndIfTheDatabaseIsAway(t *testing.T) {
	f := newFixture(t)
	f.awayAfter = time.Millisecond
	s := f.watch(t, "pods")
	f.write(t, "pods", 1)
	until(t, s, 0, 1)
	_, news, err := s.Next(t.Context(), 1, nil, database.Bounds{}, always)
	require.NoError(t, err)
	require.NoError(t, f.store.Close())
	for err == nil {
		<-news
		_, news, err = s.Next(t.Context(), 1, nil, database.Bounds{}, always)
	}
	assert.ErrorIs(t, err, ErrAway)
}

func TestASlowWatchKeepsFewTransitions(t *testing.T) {
	f := newFixture(t)
	w := f.watch(t, "pods")
	f.write(t, "pods", 1)
	from, err := f.store.Revision(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, known, err := w.kept(from)
		return err == nil && known
	}, time.Minute, time.Millisecond)
	text := strings.Repeat("x", nextBytes/2)
	for i := range 8 {
		o := store.Object{Name: fmt.Sprint("large", i), ResourceVersion: "1", JSON: fmt.Appendf(nil, `{"metadata": {"name": "large%d"}, "x": %q}`, i, text)}
		require.NoError(t, f.store.Write(t.Context(), f.streams["pods"], store.Batch{Changes: []store.Change{{Object: o}}}))
	}
	last := from + 8
	require.Eventually(t, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.top == last }, time.Minute, time.Millisecond)
	n := 0
	for at := from; at < last; {
		h, _, known, err := w.kept(at)
		require.NoError(t, err)
		require.True(t, known)
		size := 0
		for _, one := range h.Transitions {
			size += one.Size()
			require.Greater(t, one.Revision, at)
			at = one.Revision
			n++
		}
		assert.LessOrEqual(t, size, 2*nextBytes)
		require.Equal(t, at, h.UpTo)
	}
	assert.Equal(t, 8, n)
}

func TestAClosedCacheReadsNothing(t *testing.T) {
	f := newFixture(t)
	pods := []int64{f.kinds["pods"]}
	s := f.Subscribe(pods)
	f.write(t, "pods", 1)
	until(t, s, 0, 1)
	_, news, err := s.Next(t.Context(), 1, nil, database.Bounds{}, always)
	require.NoError(t, err)
	f.Close()
	select {
	case <-f.done:
	default:
		assert.Fail(t, "the reader goes on")
	}
	<-news // it wakes watches
	_, _, err = s.Next(t.Context(), 1, nil, database.Bounds{}, always)
	require.ErrorIs(t, err, ErrAway)
	s.Close()
	late := f.Subscribe(pods)
	assert.Nil(t, f.end, "no reader begins")
	_, _, err = late.Next(t.Context(), 1, nil, database.Bounds{}, always)
	assert.ErrorIs(t, err, ErrAway)
	late.Close()
}
