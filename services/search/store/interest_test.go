// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// loadedBy returns how many rows a statement returns.
func loadedBy(t *testing.T, tx *database.Tx, find *database.Statement) (n int) {
	t.Helper()
	require.NoError(t, tx.Each(t.Context(), find, func(func(...any) error) error { n++; return nil }))
	return n
}

// busyNeighbours has a pod of a reader in namespace mine of cluster east, which changed twice, and hundreds of changes of others: in other namespaces, in
// another cluster, in a resource that is not copied any more, and in a cluster that is gone. It returns the revision before the changes.
func busyNeighbours(t *testing.T, s *Store) (before int64) {
	t.Helper()
	east, west := openStream(t, s, "east", pods), openStream(t, s, "west", pods)
	closed, gone := openStream(t, s, "east", deployments), openStream(t, s, "gone", pods)
	write := func(version string) {
		t.Helper()
		others := func(namespace string) (all []Change) {
			for i := range 300 {
				o := object(namespace, fmt.Sprint("web-", i), version)
				o.JSON = fmt.Appendf(nil, `{"metadata": {"name": "web-%d", "namespace": %q, "uid": "%s%d", "ownerReferences": [{"uid": "owner"}]}}`, i, namespace, namespace, i)
				o.Owners = []string{"owner"}
				all = append(all, Change{Object: o})
			}
			return all
		}
		mine := object("mine", "web", version)
		mine.JSON = []byte(`{"metadata": {"name": "web", "namespace": "mine", "uid": "mine", "ownerReferences": [{"uid": "owner"}]}}`)
		mine.Owners = []string{"owner"}
		require.NoError(t, s.Write(t.Context(), east, Batch{Changes: append(others("theirs"), Change{Object: mine})}))
		require.NoError(t, s.Write(t.Context(), west, Batch{Changes: others("mine")}))
		require.NoError(t, s.Write(t.Context(), closed, Batch{Changes: append(others("theirs"), Change{Object: mine})}))
		require.NoError(t, s.Write(t.Context(), gone, Batch{Changes: others("mine")}))
	}
	write("1")
	before, err := s.Revision(t.Context())
	require.NoError(t, err)
	write("2")
	write("3")
	openStream(t, s, "west", deployments) // or no list could be about the kind
	require.NoError(t, s.CloseStream(t.Context(), closed))
	require.NoError(t, s.RemoveCluster(t.Context(), "gone"))
	return before
}

// TestASearchOfThePastReadsOnlyWhatItsReaderSees counts the states that such searches load.
func TestASearchOfThePastReadsOnlyWhatItsReaderSees(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		before := busyNeighbours(t, s)
		mine := objectSetOf(sets.New("mine"), nil, nil)
		scope := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{"east pods": mine, "east deployments.apps": mine, "gone pods": mine}}
		for name, test := range map[string]struct {
			kinds []streams.Kind
			scope access.Filter
			q     query.Query
			rows  int
		}{
			"a namespace":                 {[]streams.Kind{pods}, scope, query.Query{}, 1},
			"a resource that is gone":     {[]streams.Kind{pods, deployments}, scope, query.Query{}, 2},
			"a name of a cluster":         {[]streams.Kind{pods}, nil, query.Query{Clusters: query.Choice{In: []string{"west"}}}, 300},
			"an owner":                    {[]streams.Kind{pods}, scope, query.Query{Owner: &query.Owner{UID: "owner", Seniority: 1}}, 2},
			"an owner by name":            {[]streams.Kind{pods}, scope, query.Query{Owner: &query.Owner{Name: "web"}}, 2},
			"an owner in a cluster":       {[]streams.Kind{pods}, nil, query.Query{Owner: &query.Owner{UID: "owner", Seniority: 1}, Clusters: query.Choice{In: []string{"west"}}}, 300},
			"an owner in a cluster (web)": {[]streams.Kind{pods}, nil, query.Query{Owner: &query.Owner{Name: "web"}, Clusters: query.Choice{In: []string{"east"}}}, 2},
		} {
			require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
				q := test.q
				q.At = &query.Moment{Revision: before}
				last, err := database.Value[int64](t.Context(), tx, tx.SQL("SELECT last FROM revisions WHERE id = 1"))
				require.NoError(t, err)
				past, err := pastOf(t.Context(), tx, &q, last)
				require.NoError(t, err)
				var patterns []schema.GroupVersionResource
				for _, kind := range test.kinds {
					patterns = append(patterns, kind.GroupVersionResource)
				}
				b, err := newSearch(t.Context(), tx, s.For(test.scope), patterns, &q, past)
				require.NoError(t, err)
				find := b.endedObjects(nil)
				if q.Owner != nil {
					find = b.endedGeneration(func(s *database.Statement) {
						if q.Owner.Name != "" {
							b.namedOwner(s, "c.")
						}
					})
				}
				assert.Equal(t, test.rows, loadedBy(t, tx, find), name)
				return nil
			}), name)
		}
	})
}

// TestAWatchFromAnOldRevisionReadsOnlyItsOwnChanges holds that changes of others, of which there are more than a page has, cost neither a page nor their objects.
func TestAWatchFromAnOldRevisionReadsOnlyItsOwnChanges(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		before := busyNeighbours(t, s)
		last, err := s.Revision(t.Context())
		require.NoError(t, err)
		require.Greater(t, last-before, int64(2*history.PageRows), "the changes of others fill pages")
		names := sets.New("mine")
		for i := range history.MaxSetValues {
			names.Insert(fmt.Sprint("other", i))
		}
		whole := query.Choice{}
		for name, test := range map[string]struct {
			parts    map[string]*access.ObjectSet
			clusters query.Choice
			want     []string
		}{
			"a namespace":                            {map[string]*access.ObjectSet{"east pods": objectSetOf(sets.New("mine"), nil, nil)}, whole, []string{"east/mine/web true", "east/mine/web true"}},
			"many namespaces":                        {map[string]*access.ObjectSet{"east pods": objectSetOf(names, nil, nil)}, whole, []string{"east/mine/web true", "east/mine/web true"}},
			"a name":                                 {map[string]*access.ObjectSet{"gone pods": objectSetOf(nil, nil, sets.New([2]string{"mine", "web-7"}))}, whole, []string{"gone/mine/web-7 true", "gone/mine/web-7 true", "gone/mine/web-7 false"}},
			"nothing":                                {nil, whole, nil},
			"a cluster that the reader does not see": {map[string]*access.ObjectSet{"east pods": access.AllObjects}, query.Choice{In: []string{"gone"}}, nil},
		} {
			about := &history.Interest{Filter: given{parts: test.parts}, Resource: pods.GroupResource(), Query: &query.Query{Clusters: test.clusters}}
			h, err := s.Transitions(t.Context(), before, kindIDsOf(t, s, pods), about)
			require.NoError(t, err, name)
			var got []string
			for _, one := range h.Transitions {
				is := one.Subject()
				got = append(got, fmt.Sprintf("%s/%s/%s %t", is.Cluster, is.Namespace, is.Name, one.After != nil))
			}
			assert.Equal(t, test.want, got, name)
			assert.Equal(t, last, h.UpTo, name)
		}
	})
}
