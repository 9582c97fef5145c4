// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// transitionsOf returns "REVISION CLUSTER/NAMESPACE/NAME: BEFORE -> AFTER" of transitions, with the resourceVersions of the states.
func transitionsOf(t testing.TB, s *Store, after int64, kinds ...streams.Kind) (all []string, upTo int64) {
	t.Helper()
	for {
		h, err := s.Transitions(context.Background(), after, kindIDsOf(t, s, kinds...), nil)
		require.NoError(t, err)
		for _, one := range h.Transitions {
			is := one.Subject()
			assert.WithinDuration(t, time.Now(), one.CommittedAt, time.Hour)
			all = append(all, fmt.Sprintf("%d %s/%s/%s: %s -> %s", one.Revision, is.Cluster, is.Namespace, is.Name, revisionIn(t, one.Before), revisionIn(t, one.After)))
		}
		if h.UpTo == after {
			return all, after
		}
		after = h.UpTo
	}
}

func kindIDsOf(t testing.TB, s *Store, kinds ...streams.Kind) (ids []int64) {
	t.Helper()
	for _, kind := range kinds {
		var id int64
		err := s.db.Reader().QueryRow("SELECT id FROM kinds WHERE resource = '" + kind.Resource + "'").Scan(&id)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

func revisionIn(t testing.TB, state *query.Subject) string {
	t.Helper()
	if state == nil {
		return "none"
	}
	var object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	require.NoError(t, json.Unmarshal(state.JSON, &object))
	return object.Metadata.ResourceVersion
}

func TestEachChangeIsInTheHistoryWithTheStatesAroundIt(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		stream, other := openStream(t, s, "one", pods), openStream(t, s, "two", nodes)
		write := func(stream *streams.Stream, listing int64, changes ...Change) {
			t.Helper()
			require.NoError(t, s.Write(ctx, stream, Batch{Changes: changes, Listing: listing}))
		}
		write(stream, 0, Change{Object: object("a", "x", "1")}, Change{Object: object("a", "y", "2")})                   // 1, 2
		write(other, 0, Change{Object: object("", "n", "1")})                                                            // 3
		write(stream, 0, Change{Object: object("a", "x", "5")}, Change{Object: object("a", "y", "6"), Deleted: true})    // 4, 5
		write(stream, 0, Change{Object: object("a", "y", "7")}, Change{Object: object("a", "gone", "8"), Deleted: true}) // 6, and 7 is nothing
		write(stream, 0, Change{Object: object("a", "x", "5")})                                                          // 8 is nothing: it is as it was
		write(stream, 9, Change{Object: object("a", "z", "9")})                                                          // 9
		require.NoError(t, s.Sweep(ctx, stream, 9, "9"))                                                                 // 10 is the list, 11 and 12 remove x and y
		require.NoError(t, s.CloseStream(ctx, stream))                                                                   // 13 is the end, 14 removes z
		require.NoError(t, s.RemoveCluster(ctx, "two"))                                                                  // 15 and 16 are the end, 17 removes n

		got, upTo := transitionsOf(t, s, 0, pods)
		assert.Equal(t, []string{
			"1 one/a/x: none -> 1", "2 one/a/y: none -> 2", "4 one/a/x: 1 -> 4", "5 one/a/y: 2 -> none", "6 one/a/y: none -> 6", "9 one/a/z: none -> 9",
			"11 one/a/x: 4 -> none", "12 one/a/y: 6 -> none", "14 one/a/z: 9 -> none",
		}, got)
		assert.EqualValues(t, 17, upTo)
		got, _ = transitionsOf(t, s, 3, nodes)
		assert.Equal(t, []string{"17 two//n: 3 -> none"}, got, "it still has the name of the cluster")
		_, err := s.Transitions(ctx, 18, kindIDsOf(t, s, pods), nil)
		assert.ErrorIs(t, err, history.ErrFuture)
	})
}

func TestTheHistoryIsPruned(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		stream := openStream(t, s, "one", pods)
		const versions = history.PrunedAtOnce + 50
		for i := range versions {
			require.NoError(t, s.Write(ctx, stream, Batch{Changes: []Change{{Object: object("a", "x", fmt.Sprint(i))}}}))
			if i == versions-3 {
				_, err := s.db.Writer().Exec("UPDATE changes SET committed_at = 5000")
				require.NoError(t, err)
			}
		}
		more, err := s.Prune(ctx, time.UnixMilli(5000))
		require.NoError(t, err)
		assert.False(t, more, "nothing is older")
		more, err = s.Prune(ctx, time.UnixMilli(5001))
		require.NoError(t, err)
		assert.True(t, more)
		more, err = s.Prune(ctx, time.UnixMilli(5001))
		require.NoError(t, err)
		assert.False(t, more)

		const pruned = versions - 2
		ids := kindIDsOf(t, s, pods)
		_, err = s.Transitions(ctx, pruned-1, ids, nil)
		assert.ErrorIs(t, err, history.ErrPruned)
		got, _ := transitionsOf(t, s, pruned, pods)
		assert.Equal(t, []string{
			fmt.Sprintf("%d one/a/x: %d -> %d", pruned+1, pruned, pruned+1), fmt.Sprintf("%d one/a/x: %d -> %d", pruned+2, pruned+1, pruned+2),
		}, got)
		var left int
		require.NoError(t, s.db.Reader().QueryRow("SELECT COUNT(*) FROM versions").Scan(&left))
		assert.Equal(t, 2, left, "only the states that a kept change has ended")
	})
}

func TestAPageOfTheHistoryIsBounded(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		stream := openStream(t, s, "one", pods)
		large := object("a", "large", "1")
		large.JSON = fmt.Appendf(nil, `{"metadata": {"name": "large"}, "data": "%01000000d"}`, 0)
		var want []string
		for i := range 12 {
			large.ResourceVersion = fmt.Sprint(i + 1)
			require.NoError(t, s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: large}}}))
			before := fmt.Sprint(i)
			if i == 0 {
				before = "none"
			}
			want = append(want, fmt.Sprintf("%d one/a/large: %s -> %d", i+1, before, i+1))
		}
		page, err := s.Transitions(t.Context(), 0, kindIDsOf(t, s, pods), nil)
		require.NoError(t, err)
		assert.Less(t, len(page.Transitions), 12)
		assert.Equal(t, page.Transitions[len(page.Transitions)-1].Revision, page.UpTo)
		got, _ := transitionsOf(t, s, 0, pods)
		assert.Equal(t, want, got)

		var many []Change
		for i := range history.PageRows + 10 {
			many = append(many, Change{Object: object("a", fmt.Sprint(i), "1")})
		}
		require.NoError(t, s.Write(t.Context(), stream, Batch{Changes: many}))
		page, err = s.Transitions(t.Context(), 12, kindIDsOf(t, s, pods), nil)
		require.NoError(t, err)
		assert.Len(t, page.Transitions, history.PageRows)
		assert.EqualValues(t, 12+history.PageRows, page.UpTo)
	})
}
