// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// The tests of this file have a cluster with much of something, and look at what that costs others.

func TestDiscoveryReadsNoColumns(t *testing.T) {
	columns := []byte(`[{"name":"` + strings.Repeat("x", 60<<10) + `"}]`)
	each(t, func(t *testing.T, s *Store) {
		var last streams.Kind
		for i := range 100 {
			last = thing("Thing", true, "th")
			last.Resource = fmt.Sprint("things", i)
			last.Columns = fmt.Appendf(nil, "%d%s", i, columns)
			openStream(t, s, "east", last)
		}
		other := last
		other.Columns = nil
		openStream(t, s, "west", other)
		var kinds []streams.Kind
		var err error
		assert.Less(t, storetest.Allocated(func() { kinds, err = s.Kinds(t.Context()) }), uint64(2<<20))
		require.NoError(t, err)
		require.Len(t, kinds, 100)
		assert.Contains(t, kinds, other)
		found, err := s.Kind(t.Context(), "east", last.GroupVersionResource, true)
		require.NoError(t, err)
		assert.Equal(t, last, found, "tables have them")
	})
}

func TestNamespacesOfAClusterCostNoOther(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "honest", pods), Batch{Changes: []Change{{Object: object("mine", "web", "1")}}}))
		namespaces := openStream(t, s, "liar", namespacesKind)
		for begin := range 20 {
			var batch Batch
			for i := range 500 {
				batch.Changes = append(batch.Changes, Change{Object: object("", fmt.Sprintf("namespace-%d-%d", begin, i), "1")})
			}
			require.NoError(t, s.Write(t.Context(), namespaces, batch))
		}
		scope := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{"honest pods": objectSetOf(sets.New("mine"), nil, nil)}}
		limited := s.For(scope)
		var same bool
		var err error
		assert.Less(t, storetest.Allocated(func() { same, err = limited.SameSince(t.Context(), 1, pods.GroupResource(), query.Choice{}) }), uint64(300<<10))
		require.NoError(t, err)
		assert.True(t, same)
		got, _ := names(t, limited, query.Query{At: &query.Moment{Revision: 1}}, pods)
		assert.Equal(t, []string{"honest/mine/web"}, got)
	})
}

func TestEachClusterSaysWhatCannotBeRead(t *testing.T) {
	roles := streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource("roles"), Name: "Role", Namespaced: true}
	each(t, func(t *testing.T, s *Store) {
		for _, cluster := range []string{"liar", "other"} {
			stream := openStream(t, s, cluster, roles)
			require.NoError(t, s.SetRights(t.Context(), cluster, "{}"))
			var batch Batch
			for i := range map[string]int{"liar": 1100, "other": 1}[cluster] {
				o := object("a", fmt.Sprint("role-", i), "1")
				o.JSON = fmt.Appendf(nil, `{"metadata": {"name": "role-%d", "namespace": "a"}, "rules": "everything"}`, i)
				batch.Changes = append(batch.Changes, Change{Object: o})
			}
			require.NoError(t, s.Write(t.Context(), stream, batch))
		}
		unreadable, err := s.UnreadableRights(t.Context())
		require.NoError(t, err)
		assert.Len(t, unreadable["liar"], 10)
		assert.Len(t, unreadable["other"], 1)
	})
}

// TestAClusterThatDoesNotExistLooksLikeOneThatIsHidden holds for searches that refuse old copies.
func TestAClusterThatDoesNotExistLooksLikeOneThatIsHidden(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for _, cluster := range []string{"mine", "hidden"} {
			stream := openStream(t, s, cluster, pods)
			require.NoError(t, s.Sweep(t.Context(), stream, 1, "1"))
		}
		ask := func(scope access.Filter, clusters ...string) error {
			q := &query.Query{Clusters: query.Choice{In: clusters}, MaxStaleness: time.Hour}
			_, err := s.For(scope).List(t.Context(), []schema.GroupVersionResource{pods.GroupVersionResource}, q, func(Found) error { return nil })
			return err
		}
		scope := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{"mine pods": access.AllObjects}}
		require.NoError(t, ask(scope, "mine", "hidden"))
		require.NoError(t, ask(scope, "mine", "nobody"))
		var stale *StaleError
		require.ErrorAs(t, ask(nil, "mine", "nobody"), &stale)
		scope.parts["nobody pods"] = access.AllObjects
		require.ErrorAs(t, ask(scope, "mine", "nobody"), &stale, "the hub grants what is in it, and it may come")
	})
}
