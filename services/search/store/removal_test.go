// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// manyRows is more than two transactions remove.
const manyRows = 2*database.RemovedAtOnce + 10

// rows writes many Namespaces and events of cluster east, and some documents. It returns the stream of each kind.
func rows(t *testing.T, s *Store) map[schema.GroupVersionResource]*streams.Stream {
	t.Helper()
	written := map[schema.GroupVersionResource]*streams.Stream{}
	for _, kind := range []streams.Kind{{GroupVersionResource: streams.NamespacesResource, Name: "Namespace"}, streams.InvolvedEvents} {
		stream := openStream(t, s, "east", kind)
		var batch Batch
		for i := range manyRows {
			o := object("", fmt.Sprint("n-", i), "1")
			if o.UID = fmt.Sprint("uid-", i); kind.Resource == streams.InvolvedEvents.Resource {
				o.Involved = &Involved{Kind: "Pod", Namespace: "a", Name: "web", SeenAt: time.Now().Unix()}
			}
			batch.Changes = append(batch.Changes, Change{Object: o})
		}
		require.NoError(t, s.Write(t.Context(), stream, batch))
		written[kind.GroupVersionResource] = stream
	}
	for i := range 2*streams.DocumentsAtOnce + 1 {
		require.NoError(t, s.PutSchema(t.Context(), "east", fmt.Sprint("apis/", i), "1", fmt.Appendf(nil, `{"x":%d}`, i)))
	}
	return written
}

// rowsOfAll counts the rows of a table.
func rowsOfAll(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	require.NoError(t, s.db.Reader().QueryRow("SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

// TestManyRowsLetOthersWrite holds for what a cluster has besides objects: no transaction removes much of it, and in the end it is gone.
func TestManyRowsLetOthersWrite(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		other := openStream(t, s, "west", pods)
		for name, test := range map[string]struct {
			table string
			least int
			do    func(s *Store, written map[schema.GroupVersionResource]*streams.Stream) error
		}{
			"events of a resource that goes": {"events", 2, func(s *Store, written map[schema.GroupVersionResource]*streams.Stream) error {
				return s.CloseStream(t.Context(), written[streams.InvolvedEvents.GroupVersionResource])
			}},
			"events of a cluster": {"events", 2, func(s *Store, _ map[schema.GroupVersionResource]*streams.Stream) error {
				return s.RemoveCluster(t.Context(), "east")
			}},
			"namespaces of a cluster": {"namespaces", 2, func(s *Store, _ map[schema.GroupVersionResource]*streams.Stream) error {
				return s.RemoveCluster(t.Context(), "east")
			}},
			"documents of a cluster": {"documents", 2, func(s *Store, _ map[schema.GroupVersionResource]*streams.Stream) error {
				return s.RemoveCluster(t.Context(), "east")
			}},
			"documents that are gone": {"documents", 2, func(s *Store, _ map[schema.GroupVersionResource]*streams.Stream) error {
				return s.RemoveSchemas(t.Context(), "east", nil)
			}},
		} {
			written := rows(t, s)
			before, steps := rowsOfAll(t, s, test.table), 0
			limited := s.Throttled(func(_ context.Context, transaction func() (int, error)) error {
				n, err := transaction()
				assert.LessOrEqual(t, n, database.RemovedAtOnce, name)
				now := rowsOfAll(t, s, test.table)
				if assert.LessOrEqual(t, before-now, database.RemovedAtOnce, name); now < before {
					steps++
				}
				before = now
				require.NoError(t, s.Write(t.Context(), other, Batch{Changes: []Change{{Object: object("a", "x", name)}}}), name)
				return err
			})
			require.NoError(t, test.do(limited, written), name)
			assert.GreaterOrEqual(t, steps, test.least, name)
			assert.Zero(t, rowsOfAll(t, s, test.table), name)
			require.NoError(t, s.RemoveCluster(t.Context(), "east"))
			for _, table := range []string{"events", "namespaces", "documents", "openapi"} {
				assert.Zero(t, rowsOfAll(t, s, table), "%s: %s", name, table)
			}
		}
	})
}

// TestManyNamespacesThatAreGoneLetOthersWrite has a list without them, and then the history end that has them.
func TestManyNamespacesThatAreGoneLetOthersWrite(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		written := rows(t, s)
		gone := func() (n int) {
			t.Helper()
			require.NoError(t, s.db.Reader().QueryRow("SELECT COUNT(*) FROM namespaces WHERE uid = ''").Scan(&n))
			return n
		}
		// Their objects may be gone already, with a stream that was closed.
		stream := written[streams.NamespacesResource]
		require.NoError(t, s.CloseStream(t.Context(), stream))
		require.Zero(t, gone())
		stream = openStream(t, s, "east", streams.Kind{GroupVersionResource: streams.NamespacesResource, Name: "Namespace"})
		before := 0
		limited := s.Throttled(func(_ context.Context, transaction func() (int, error)) error {
			_, err := transaction()
			now := gone()
			assert.LessOrEqual(t, now-before, database.RemovedAtOnce)
			before = now
			return err
		})
		require.NoError(t, limited.Sweep(t.Context(), stream, 7, "7"))
		require.Equal(t, manyRows, gone())
		later := openStream(t, s, "east", pods)
		require.NoError(t, s.Write(t.Context(), later, Batch{Changes: []Change{{Object: object("a", "later", "1")}}}))

		calls := 0
		for more := true; more; calls++ {
			before = gone()
			var err error
			more, err = s.Prune(t.Context(), time.Now().Add(time.Hour))
			require.NoError(t, err)
			assert.LessOrEqual(t, before-gone(), database.RemovedAtOnce)
		}
		assert.GreaterOrEqual(t, calls, manyRows/database.RemovedAtOnce)
		assert.Zero(t, gone())
	})
}
