// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func TestAPartOfANameIsNoPattern(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		batch := Batch{}
		for _, name := range []string{"a%b", "a_b", `a\\b`, "acb"} {
			batch.Changes = append(batch.Changes, Change{Object: object("", name, "1")})
		}
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "one", nodes), batch))
		for part, want := range map[string][]string{"%": {"a%b"}, "_": {"a_b"}, `\\`: {`a\\b`}, "cb": {"acb"}, "a%": {"a%b"}} {
			found, _ := names(t, s, query.Query{Fuzzy: []string{part}}, nodes)
			assert.Len(t, found, len(want), part)
			assert.Equal(t, "one//"+want[0], found[0])
		}
	})
}

// TestSearchesLeaveConnectionsToSmallReads has as many searches as there may be, none of which ends.
func TestSearchesLeaveConnectionsToSmallReads(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "one", nodes), Batch{Changes: []Change{{Object: object("", "a", "1")}}}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		running, end := make(chan struct{}), make(chan struct{})
		var group errgroup.Group
		for range database.MaxSearches {
			group.Go(func() error {
				_, err := s.List(ctx, []schema.GroupVersionResource{nodes.GroupVersionResource}, &query.Query{}, func(Found) error {
					running <- struct{}{}
					<-end
					return nil
				})
				return err
			})
		}
		for range database.MaxSearches {
			select {
			case <-running:
			case <-ctx.Done():
				t.Fatal("they do not all run")
			}
		}
		for range 10 {
			clusters, err := s.Clusters(ctx)
			require.NoError(t, err)
			assert.Equal(t, []string{"one"}, clusters)
			_, err = s.RightsIndex(ctx)
			require.NoError(t, err)
		}
		brief, stop := context.WithTimeout(ctx, 10*time.Millisecond)
		defer stop()
		_, err := s.List(brief, []schema.GroupVersionResource{nodes.GroupVersionResource}, &query.Query{}, func(Found) error { return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded, "there is no room for another one")
		close(end)
		require.NoError(t, group.Wait())
	})
}

func TestPostgreSQLHasIndexesForFieldsAndPartsOfNames(t *testing.T) {
	s := opened(t, databases.New(t, "postgres"))
	crowd(t, s)
	require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
		kinds, err := streams.KindIDs(t.Context(), tx, []schema.GroupVersionResource{pods.GroupVersionResource})
		require.NoError(t, err)
		for _, setting := range []string{"enable_seqscan = off", "cpu_operator_cost = 1"} { // the table is small, and so are its objects
			_, err = tx.Exec(t.Context(), tx.SQL("SET LOCAL "+setting))
			require.NoError(t, err)
		}
		for _, text := range []string{"status.phase=Failed", "spec.list[].image in (x, y)"} {
			plan := planOf(t, tx, (&search{Dialect: tx, q: &query.Query{Fields: selected(t, text)}, kinds: kinds}).objects())
			assert.Contains(t, plan, "objects_fields", text)
		}
		indexes, err := database.Value[int](t.Context(), tx, tx.SQL("SELECT COUNT(*) FROM pg_indexes WHERE indexname = 'objects_name_part'"))
		assert.Equal(t, 1, indexes, "the extension can be installed here")
		return err
	}))
}

func selected(t *testing.T, text string) []query.Field {
	t.Helper()
	fields, err := query.ParseFields(text)
	require.NoError(t, err)
	return fields
}
