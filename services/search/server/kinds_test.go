// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// TestKindsThatNoClusterHasGo has a cluster name other resources again and again. Their names go when they were unused for long, and the
// history has none of them. A resource that returns has another ID.
func TestKindsThatNoClusterHasGo(t *testing.T) {
	s, err := store.Open(storetest.SQLite(t))
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	kind := func(n int) streams.Kind {
		return streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: fmt.Sprint("things", n)}, Name: "Thing"}
	}
	id := func(n int) int64 {
		t.Helper()
		ids, err := s.KindIDs(t.Context(), []schema.GroupVersionResource{kind(n).GroupVersionResource})
		require.NoError(t, err)
		require.Len(t, ids, 1)
		return ids[0]
	}
	open := func(n int) *streams.Stream {
		t.Helper()
		stream, err := s.OpenStream(t.Context(), "east", kind(n))
		require.NoError(t, err)
		return stream
	}
	ids := map[int64]bool{}
	for n := range 5 {
		stream := open(n)
		o := store.Object{Name: "x", UID: "u", ResourceVersion: "1", JSON: []byte(`{"metadata":{"name":"x"}}`)}
		require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: []store.Change{{Object: o}}}))
		ids[id(n)] = true
		require.NoError(t, s.CloseStream(t.Context(), stream))
	}
	begin := time.Now()
	look := func(unused map[int64]time.Time, after time.Duration) map[int64]time.Time {
		t.Helper()
		unused, err := forgetKinds(t.Context(), s, unused, begin.Add(after), time.Hour)
		require.NoError(t, err)
		return unused
	}
	count := func() int {
		t.Helper()
		all, err := s.UnusedKinds(t.Context())
		require.NoError(t, err)
		return len(all)
	}
	unused := look(nil, 0)
	require.Len(t, unused, 5)
	open(4) // it returns in time
	kept := id(4)
	assert.Contains(t, ids, kept)
	unused = look(unused, 59*time.Minute)
	require.Equal(t, 4, count())
	unused = look(unused, 2*time.Hour)
	require.Equal(t, 4, count(), "the history has them")
	for more := true; more; {
		more, err = s.Prune(t.Context(), begin.Add(time.Hour))
		require.NoError(t, err)
	}
	unused = look(unused, 2*time.Hour)
	assert.Zero(t, count())
	assert.Empty(t, look(unused, 3*time.Hour))
	assert.Equal(t, kept, id(4))
	for n := range 4 {
		open(n)
		assert.NotContains(t, ids, id(n), "a watch could take it for another kind")
	}
}
