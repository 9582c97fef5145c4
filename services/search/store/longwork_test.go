// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

const manyObjects = 4*database.RemovedAtOnce + 10

// manyOf writes many objects of a resource of cluster east.
func manyOf(t *testing.T, s *Store, kind streams.Kind) *streams.Stream {
	t.Helper()
	stream := openStream(t, s, "east", kind)
	var batch Batch
	for i := range manyObjects {
		batch.Changes = append(batch.Changes, Change{Object: object("a", fmt.Sprint("web-", i), "1")})
	}
	batch.ResourceVersion = "1"
	require.NoError(t, s.Write(t.Context(), stream, batch))
	return stream
}

// leftOf returns how many objects cluster east has.
func leftOf(t *testing.T, s *Store) (n int) {
	t.Helper()
	require.NoError(t, s.db.Reader().QueryRow("SELECT COUNT(*) FROM objects o JOIN clusters c ON c.id = o.cluster_id WHERE c.name = 'east'").Scan(&n))
	return n
}

// longWork is work that takes several transactions. left is how many objects there are afterwards.
var longWork = map[string]struct {
	do   func(ctx context.Context, s *Store, stream *streams.Stream) error
	left int
}{
	"the end of a list": {func(ctx context.Context, s *Store, stream *streams.Stream) error { return s.Sweep(ctx, stream, 7, "7") }, 0},
	"a list that had no room": {func(ctx context.Context, s *Store, stream *streams.Stream) error {
		return s.RemoveUnlisted(ctx, stream, 7)
	}, 0},
	"namespaces that go": {func(ctx context.Context, s *Store, stream *streams.Stream) error {
		return s.RemoveOtherNamespaces(ctx, stream, []string{"b"})
	}, 0},
	"a resource that goes": {func(ctx context.Context, s *Store, stream *streams.Stream) error { return s.CloseStream(ctx, stream) }, 0},
	"a cluster that goes":  {func(ctx context.Context, s *Store, _ *streams.Stream) error { return s.RemoveCluster(ctx, "east") }, 0},
	"another scope": {func(ctx context.Context, s *Store, _ *streams.Stream) error {
		other := pods
		other.Namespaced = false
		_, err := s.OpenStream(ctx, "east", other)
		return err
	}, manyObjects},
}

func TestOtherNamespacesAreRemoved(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		stream, other := openStream(t, s, "east", pods), openStream(t, s, "west", pods)
		for _, to := range []*streams.Stream{stream, other, openStream(t, s, "east", jobs)} {
			var batch Batch
			for _, namespace := range []string{"a", "A", "b", "ab", "c"} {
				batch.Changes = append(batch.Changes, Change{Object: object(namespace, "x", "1")})
			}
			batch.ResourceVersion = "1"
			require.NoError(t, s.Write(t.Context(), to, batch))
		}
		require.NoError(t, s.RemoveOtherNamespaces(t.Context(), stream, []string{"a", "c", "none"}))
		found, _ := names(t, s, query.Query{Clusters: query.Choice{In: []string{"east"}}}, pods)
		assert.Equal(t, []string{"east/a/x", "east/c/x"}, found)
		found, _ = names(t, s, query.Query{Clusters: query.Choice{In: []string{"west"}}}, pods)
		assert.Len(t, found, 5)
		assert.Equal(t, 7, leftOf(t, s), "other resources stay")
		openStream(t, s, "east", pods) // another writer
		require.ErrorIs(t, s.RemoveOtherNamespaces(t.Context(), stream, []string{"a"}), streams.ErrFenced)
	})
}

// TestLongWorkLetsOthersWrite holds that another cluster writes between the transactions of one that has many objects.
func TestLongWorkLetsOthersWrite(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		other := openStream(t, s, "west", pods)
		for name, work := range longWork {
			stream := manyOf(t, s, pods)
			transactions, rows := 0, 0
			limited := s.Throttled(func(_ context.Context, transaction func() (int, error)) error {
				transactions++
				n, err := transaction()
				rows += n
				assert.LessOrEqual(t, n, database.RemovedAtOnce, name)
				require.NoError(t, s.Write(t.Context(), other, Batch{Changes: []Change{{Object: object("a", "x", fmt.Sprint(name, transactions))}}}), name)
				return err
			})
			require.NoError(t, work.do(t.Context(), limited, stream), name)
			assert.GreaterOrEqual(t, transactions, manyObjects/database.RemovedAtOnce, name)
			assert.GreaterOrEqual(t, rows, manyObjects/database.RemovedAtOnce*database.RemovedAtOnce, name)
			assert.Equal(t, work.left, leftOf(t, s), name)
			require.NoError(t, s.RemoveCluster(t.Context(), "east"))
		}
	})
}

// TestLongWorkThatWasInterruptedGoesOn has such work fail after its first transactions. Until it is done again, nothing counts as complete that is not.
func TestLongWorkThatWasInterruptedGoesOn(t *testing.T) {
	failure := errors.New("no more transactions")
	each(t, func(t *testing.T, s *Store) {
		for name, work := range longWork {
			for most := range 5 {
				stream := manyOf(t, s, pods)
				transactions := 0
				err := work.do(t.Context(), s.Throttled(func(_ context.Context, transaction func() (int, error)) error {
					if transactions++; transactions > most {
						return failure
					}
					_, err := transaction()
					return err
				}), stream)
				require.ErrorIs(t, err, failure, name)
				count, err := s.CountObjects(t.Context(), "east")
				require.NoError(t, err)
				assert.EqualValues(t, leftOf(t, s), count, name)
				next := openStream(t, s, "east", pods)
				if name == "a list that had no room" || name == "the end of a list" {
					assert.Equal(t, "1", next.ResourceVersion, "what is gone is gone in the cluster: %s", name)
					assert.False(t, next.Listed, name)
				} else if most > 1 {
					assert.Empty(t, next.ResourceVersion, "the next writer lists: %s after %d", name, most)
				}
				require.NoError(t, s.Write(t.Context(), next, Batch{Changes: []Change{{Object: object("a", "new", "1")}}}))
				require.NoError(t, s.RemoveCluster(t.Context(), "east"), name)
				assert.Zero(t, leftOf(t, s), name)
				clusters, err := s.Clusters(t.Context())
				require.NoError(t, err)
				assert.Empty(t, clusters, name)
			}
		}
	})
}

// TestObjectsOfAnotherScopeAreWrittenAgain holds that all objects are, whatever their resourceVersions are, and that no former writer writes meanwhile.
func TestObjectsOfAnotherScopeAreWrittenAgain(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		former := manyOf(t, s, pods)
		other := pods
		other.Name = "Other"
		limited := s.Throttled(func(_ context.Context, transaction func() (int, error)) error {
			_, err := transaction()
			assert.ErrorIs(t, s.Write(t.Context(), former, Batch{Changes: []Change{{Object: object("a", "late", "1")}}}), streams.ErrFenced)
			return err
		})
		_, err := limited.OpenStream(t.Context(), "east", other)
		require.NoError(t, err)
		var same int
		require.NoError(t, s.db.Reader().QueryRow("SELECT COUNT(*) FROM objects WHERE resource_version <> ''").Scan(&same))
		assert.Zero(t, same)
		assert.Equal(t, manyObjects, leftOf(t, s))
		found, _ := names(t, s, query.Query{Names: query.Choice{In: []string{"late"}}}, pods)
		assert.Empty(t, found)
	})
}
