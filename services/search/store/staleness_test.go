// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// syncedAtOf returns when the pods of a cluster were synced.
func syncedAtOf(t *testing.T, s *Store, cluster string) time.Time {
	t.Helper()
	syncedAt, err := s.Ages(t.Context(), []schema.GroupVersionResource{pods.GroupVersionResource},
		&query.Query{WithStaleness: true, Clusters: query.Choice{In: []string{cluster}}})
	require.NoError(t, err)
	require.Len(t, syncedAt, 1)
	return syncedAt[cluster]
}

func ago(d time.Duration) time.Time { return time.Now().Add(-d).Truncate(time.Millisecond) }

func TestAListCountsFromWhenItWasAskedFor(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx, stream := t.Context(), openStream(t, s, "east", pods)
		first, event, second := ago(time.Hour), ago(50*time.Minute), ago(time.Minute)
		part := func(listing int64, syncedAt time.Time, name string) {
			t.Helper()
			require.NoError(t, s.Write(ctx, stream, Batch{Changes: []Change{{Object: object("a", name, "1")}}, Listing: listing, SyncedAt: syncedAt}))
		}
		part(1, first, "x")
		assert.Zero(t, syncedAtOf(t, s, "east"), "a list that is not complete")
		require.NoError(t, s.Sweep(ctx, stream, 1, "1"))
		assert.WithinDuration(t, first, syncedAtOf(t, s, "east"), 0)
		require.NoError(t, s.Write(ctx, stream, Batch{ResourceVersion: "2", SyncedAt: event}))
		assert.WithinDuration(t, event, syncedAtOf(t, s, "east"), 0, "a bookmark")

		part(2, second, "x")
		part(2, second, "y")
		assert.WithinDuration(t, event, syncedAtOf(t, s, "east"), 0, "a further list is not complete either, and the objects that it has not reached are old")
		alive, err := s.Alive(ctx, stream)
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), alive, 30*time.Second, "but its writer is alive")
		require.NoError(t, s.Sweep(ctx, stream, 2, "3"))
		assert.WithinDuration(t, second, syncedAtOf(t, s, "east"), 0)
	})
}

func TestQuietStreamsAreHeard(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		var streams []*streams.Stream
		for _, cluster := range []string{"east", "moved", "west"} {
			stream := openStream(t, s, cluster, pods)
			require.NoError(t, s.Sweep(ctx, stream, 1, "1"))
			require.NoError(t, s.Write(ctx, stream, Batch{ResourceVersion: "1", SyncedAt: ago(time.Hour)}))
			streams = append(streams, stream)
		}
		openStream(t, s, "moved", pods)
		later := ago(time.Minute)
		require.NoError(t, s.Write(ctx, streams[2], Batch{ResourceVersion: "1", SyncedAt: later}))
		at := ago(2 * time.Minute)
		require.NoError(t, s.MarkSynced(ctx, streams, at))
		assert.WithinDuration(t, at, syncedAtOf(t, s, "east"), 0)
		assert.WithinDuration(t, later, syncedAtOf(t, s, "west"), 0, "what is newer stays")
		assert.Less(t, syncedAtOf(t, s, "moved"), at, "another replica has opened the stream")
		require.NoError(t, s.MarkSynced(ctx, nil, at))
	})
}

func TestAQueryRefusesOldCopies(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		syncedAt := map[string]time.Time{"new": {}, "old": ago(time.Minute), "older": ago(time.Hour), "well": ago(time.Second)}
		for cluster, at := range syncedAt {
			for _, kind := range []streams.Kind{pods, nodes} {
				stream := openStream(t, s, cluster, kind)
				if kind.Resource == "pods" {
					require.NoError(t, s.Write(ctx, stream, Batch{SyncedAt: at}))
				}
				if kind.Resource != "pods" || cluster != "new" {
					_, err := s.db.Writer().Exec(fmt.Sprintf("UPDATE streams SET listed = (1 = 1) WHERE id = %d", stream.ID))
					require.NoError(t, err)
				}
				if kind.Resource == "nodes" {
					require.NoError(t, s.MarkSynced(ctx, []*streams.Stream{stream}, ago(0)))
				}
			}
		}
		refused := func(kind streams.Kind, q query.Query) []string {
			t.Helper()
			_, err := s.List(ctx, []schema.GroupVersionResource{kind.GroupVersionResource}, &q, func(Found) error { return nil })
			if err == nil {
				return nil
			}
			var stale *StaleError
			require.ErrorAs(t, err, &stale)
			require.Equal(t, q.MaxStaleness, stale.Max)
			var names []string
			for name, at := range stale.SyncedAt {
				assert.WithinDuration(t, syncedAt[name], at, 0)
				names = append(names, name)
			}
			return names
		}
		assert.ElementsMatch(t, []string{"new", "old", "older"}, refused(pods, query.Query{MaxStaleness: 30 * time.Second}))
		assert.ElementsMatch(t, []string{"new", "older"}, refused(pods, query.Query{MaxStaleness: 10 * time.Minute}), "more than what is warned of")
		assert.ElementsMatch(t, []string{"new"}, refused(pods, query.Query{MaxStaleness: 1000 * time.Hour}), "what was never listed is older than anything")
		assert.Empty(t, refused(nodes, query.Query{MaxStaleness: 30 * time.Second}), "another resource")
		assert.Empty(t, refused(pods, query.Query{MaxStaleness: 30 * time.Second, Clusters: query.Choice{In: []string{"well"}}}), "other clusters")
		assert.Empty(t, refused(pods, query.Query{MaxStaleness: 30 * time.Second, Clusters: query.Choice{NotIn: []string{"new", "old", "older"}}}), "other clusters")
		assert.ElementsMatch(t, []string{"nowhere"}, refused(pods, query.Query{MaxStaleness: time.Hour, Clusters: query.Choice{In: []string{"well", "nowhere"}}}),
			"a cluster that was never synced")
		_, page := names(t, s, query.Query{WithStaleness: true}, pods)
		assert.Len(t, page.SyncedAt, 4)
	})
}
