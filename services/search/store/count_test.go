// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// assertCounts holds that a search for all pods has so many objects, and returns how many streams did not know their numbers.
func assertCounts(t *testing.T, s *Store, want int64) (unknown int) {
	t.Helper()
	require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
		kinds, err := streams.KindIDs(t.Context(), tx, []schema.GroupVersionResource{pods.GroupVersionResource})
		if err != nil || len(kinds) == 0 {
			assert.Zero(t, want, "no cluster has pods")
			return err
		}
		b := &search{Dialect: tx.Dialect, q: &query.Query{}, kinds: kinds}
		got, err := total(t.Context(), tx, b)
		assert.Equal(t, want, got)
		if err != nil {
			return err
		}
		var sum int64
		find := b.sum()
		return tx.Row(t.Context(), find).Scan(&sum, &unknown)
	}))
	return unknown
}

func TestStreamsKnowTheNumberOfTheirObjects(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 0))
		written := map[string]*streams.Stream{"one": openStream(t, s, "one", pods), "two": openStream(t, s, "two", pods)}
		openStream(t, s, "one", nodes)
		for turn := range 60 {
			cluster := []string{"one", "two"}[r.IntN(2)]
			stream, batch, version := written[cluster], Batch{}, fmt.Sprint(turn)
			for range r.IntN(20) {
				o := object("a", fmt.Sprint("o", r.IntN(30)), version)
				if r.IntN(4) == 0 {
					o.UID += version // it was deleted and made again
				}
				batch.Changes = append(batch.Changes, Change{Object: o, Deleted: r.IntN(3) == 0})
			}
			switch r.IntN(6) {
			case 0:
				batch.Listing = int64(turn) + 1
				require.NoError(t, s.Write(t.Context(), stream, batch))
				require.NoError(t, s.Sweep(t.Context(), stream, batch.Listing, version))
			case 1:
				written[cluster] = openStream(t, s, cluster, pods)
				assert.ErrorIs(t, s.Write(t.Context(), stream, batch), streams.ErrFenced)
			default:
				require.NoError(t, s.Write(t.Context(), stream, batch))
			}
			found, _ := names(t, s, query.Query{}, pods)
			assert.Zero(t, assertCounts(t, s, int64(len(found))), "all streams know the number")
			if t.Failed() {
				t.Fatalf("seed %d, turn %d", seed, turn)
			}
		}
		require.NoError(t, s.RemoveCluster(t.Context(), "two"))
		found, _ := names(t, s, query.Query{}, pods)
		assert.Zero(t, assertCounts(t, s, int64(len(found))))
	})
}

func TestObjectsAreCountedWhereAWriterDoesNotKeepTheirNumber(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		stream := openStream(t, s, "one", pods)
		require.NoError(t, s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: object("a", "x", "1")}, {Object: object("a", "y", "2")}}}))
		// A version before schema 7 opens the stream, and deletes an object.
		for _, text := range []string{"UPDATE streams SET epoch = epoch + 1", "DELETE FROM objects WHERE name = 'x'"} {
			_, err := s.db.Writer().Exec(text)
			require.NoError(t, err)
		}
		assert.Equal(t, 1, assertCounts(t, s, 1), "the number is not believed")
		openStream(t, s, "one", pods)
		assert.Zero(t, assertCounts(t, s, 1), "the next writer has counted")
	})
}
