// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/url"
	"strings"
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

// documented are the queries of docs/search.md, and the index by which SQLite finds objects.
var documented = map[string]string{
	"":                                    "objects_order",
	"labelSelector=app%3Da7":              "labels USING PRIMARY KEY",
	"clusters=east":                       "sqlite_autoindex_objects",
	"clusters=east&namespaces=default":    "sqlite_autoindex_objects",
	"namespaces=default":                  "objects_order",
	"names=web-1":                         "objects_name",
	"ownerName=web-1&ownerSeniority=1":    "objects_name",
	"ownerUID=u7":                         "w0 USING PRIMARY KEY",
	"since=2026-11-23":                    "objects_",
	"orderby=created_at+desc,name":        "objects_",
	"orderby=spec.replicas+desc":          "objects_",
	"fieldSelector=status.phase%3DFailed": "objects_order",
	"fieldSelector=spec.list[].image%3Dx": "objects_order",
	"limit=500&continue=1000":             "objects_order",
	"labelSelector=search.clusterpedia.io%2Ffuzzy-name%3Dwe":                       "objects_order",
	"labelSelector=search.clusterpedia.io%2Fnamespaces+notin+(kube-system)":        "objects_order",
	"ownerName=web-1&ownerGR=deployments.apps&ownerSeniority=1&clusters=east,west": "objects_name",
}

// crowd writes so many objects that indexes count.
func crowd(t *testing.T, s *Store) {
	t.Helper()
	for _, cluster := range []string{"east", "west"} {
		for _, kind := range []streams.Kind{deployments, pods} {
			stream := openStream(t, s, cluster, kind)
			for b := range 8 {
				var batch Batch
				for i := range 500 {
					n := b*500 + i
					o := object(fmt.Sprint("ns", n%40), fmt.Sprint("web-", n), "1")
					o.CreatedAt = int64(1_700_000_000 + n)
					o.Labels = map[string]string{"app": fmt.Sprint("a", n%500)}
					o.Owners = []string{fmt.Sprint("u", n/3)}
					batch.Changes = append(batch.Changes, Change{Object: o})
				}
				require.NoError(t, s.Write(t.Context(), stream, batch))
			}
		}
	}
	require.NoError(t, s.Analyze(t.Context()))
}

func TestDocumentedQueriesUseAnIndex(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		crowd(t, s)
		for text, index := range documented {
			values, err := url.ParseQuery(text)
			require.NoError(t, err)
			q, err := query.Parse(values)
			require.NoError(t, err)
			require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
				b := &search{Dialect: tx.Dialect, q: q}
				if b.kinds, err = streams.KindIDs(t.Context(), tx, []schema.GroupVersionResource{pods.GroupVersionResource}); err != nil {
					return err
				}
				if b.clusters, err = streams.ClustersOf(t.Context(), tx, q.Clusters); err != nil {
					return err
				}
				plan := planOf(t, tx, b.objects())
				switch tx.Name() {
				case "sqlite":
					assert.NotRegexp(t, `SCAN (o|p0|w0|l)\b`, plan, text)
					assert.Contains(t, strings.ReplaceAll(plan, "SEARCH l USING", "SEARCH labels USING"), index, text)
				case "postgres": // half of the objects are pods, so it may read all of them
					assert.NotRegexp(t, `Seq Scan on owners`, plan, text)
				default:
					assert.NotRegexp(t, `(?m)^(p0|w0|l) ALL`, plan, text)
				}
				return nil
			}))
		}
	})
}

// TestSearchesOfReadersUseAnIndex holds that the conditions of rights leave databases a way to the objects that does not go through all of them.
func TestSearchesOfReadersUseAnIndex(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		crowd(t, s)
		changed := lastRights(t, s)
		objects := sets.New[[2]string]()
		for n := range 20 {
			objects.Insert([2]string{fmt.Sprint("ns", n), fmt.Sprint("web-", n)})
		}
		for name, parts := range map[string]map[string]*access.ObjectSet{
			"a namespace of a cluster":      {"east pods": objectSetOf(sets.New("ns1"), nil, nil)},
			"a namespace of two clusters":   {"east pods": objectSetOf(sets.New("ns1"), nil, nil), "west pods": objectSetOf(sets.New("ns1"), nil, nil)},
			"other namespaces of clusters":  {"east pods": objectSetOf(sets.New("ns1", "ns2"), nil, nil), "west pods": objectSetOf(sets.New("ns3"), nil, nil)},
			"objects by namespace and name": {"east pods": objectSetOf(nil, nil, objects), "west pods": objectSetOf(nil, nil, objects)},
		} {
			for _, text := range []string{"", "labelSelector=app%3Da7", "ownerName=web-1&ownerSeniority=1"} {
				values, err := url.ParseQuery(text)
				require.NoError(t, err)
				q, err := query.Parse(values)
				require.NoError(t, err)
				require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
					b := &search{Dialect: tx.Dialect, q: q, filter: given{asOf: changed, parts: parts}}
					if b.kinds, err = streams.KindIDs(t.Context(), tx, []schema.GroupVersionResource{pods.GroupVersionResource}); err != nil {
						return err
					}
					if b.readable, _, err = readableBy(t.Context(), tx, b); err != nil {
						return err
					}
					b.clusters = clustersIn(b.readable, b.kinds)
					plans := planOf(t, tx, b.objects()) + planOf(t, tx, b.count())
					switch tx.Name() {
					case "sqlite":
						assert.NotRegexp(t, `SCAN (o|p0|w0|l)\b`, plans, "%s: %s", name, text)
					case "postgres":
						assert.NotContains(t, plans, "Seq Scan on objects", "%s: %s", name, text)
					default:
						assert.NotRegexp(t, `(?m)^(o|p0|w0|l) ALL`, plans, "%s: %s", name, text)
					}
					return nil
				}))
			}
		}
	})
}

// TestWordsUseAnIndex holds that PostgreSQL, with its extension for trigrams, reads only objects with the words, for readers with few rights, too.
func TestWordsUseAnIndex(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		if s.db.Name() != "postgres" {
			return // it has no such index
		}
		crowd(t, s)
		few := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{
			"east pods": objectSetOf(sets.New("ns1"), nil, nil), "east deployments.apps": objectSetOf(sets.New("ns1", "ns2"), nil, nil),
		}}
		for name, of := range map[string]*Store{"everything": s, "few rights": s.For(few)} {
			for _, words := range [][]string{{"web-1999"}, {"web-1999", "east"}, {"a499"}, {"nothing"}} {
				require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
					patterns := []schema.GroupVersionResource{pods.GroupVersionResource, deployments.GroupVersionResource}
					b, err := newSearch(t.Context(), tx, of, patterns, &query.Query{Words: words, Limit: 50, WithRemaining: true}, nil)
					require.NoError(t, err)
					plan := planOf(t, tx, b.objects())
					assert.NotContains(t, plan, "Seq Scan on objects", "%s: %s", name, words)
					if of == s {
						assert.Contains(t, plan, "objects_words", "%s: %s", name, words)
					}
					return nil
				}))
			}
		}
	})
}

// TestWordsOfManyObjectsAreReadInOrder holds that a page of objects with a word that many have is read by the index of their order.
func TestWordsOfManyObjectsAreReadInOrder(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		crowd(t, s)
		kinds := []streams.Kind{deployments, pods}
		q := query.Query{Words: []string{"web-1"}, Limit: 50, WithRemaining: true}
		counted, page := names(t, s, q, kinds...)
		assert.Positive(t, page.Remaining)
		s.many = 100
		read, page := names(t, s, q, kinds...)
		assert.Equal(t, counted, read)
		assert.True(t, page.More)
		assert.Equal(t, int64(-1), page.Remaining)
		require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
			patterns := []schema.GroupVersionResource{pods.GroupVersionResource, deployments.GroupVersionResource}
			b, err := newSearch(t.Context(), tx, s, patterns, &q, nil)
			require.NoError(t, err)
			require.NoError(t, countMatches(t.Context(), tx, b))
			require.Len(t, b.parts(), 2)
			if tx.Name() == "mysql" {
				return nil // MariaDB may also read all objects of a kind
			}
			for _, part := range b.parts() {
				plan := planOf(t, tx, part.objects())
				assert.Contains(t, plan, "objects_order")
				if tx.Name() == "postgres" {
					assert.NotContains(t, plan, "Sort")
				}
			}
			return nil
		}))
	})
}

// TestDeepPagesUseAnIndex holds that a page begins where the one before has ended, without reading what comes before it.
func TestDeepPagesUseAnIndex(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		crowd(t, s)
		require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
			b := &search{Dialect: tx.Dialect, q: &query.Query{}, past: &past{revision: 9, last: 9, from: -1, after: &entry{namespace: "ns38", name: "web-3", clusterID: 1}}}
			var err error
			if b.kinds, err = streams.KindIDs(t.Context(), tx, []schema.GroupVersionResource{pods.GroupVersionResource}); err != nil {
				return err
			}
			plan := planOf(t, tx, b.unchangedObjects(20))
			switch tx.Name() {
			case "sqlite":
				assert.Regexp(t, `SEARCH o USING INDEX objects_order \(kind_id=\? AND \(namespace,name,cluster_id\)>`, plan)
				assert.NotContains(t, plan, "TEMP B-TREE")
			case "postgres":
				assert.Regexp(t, `Index Scan using objects_order on objects o`, plan)
				assert.Regexp(t, `Index Cond: \(\(kind_id = .*ROW\(namespace, name, cluster_id\) >`, plan)
				assert.NotContains(t, plan, "Sort")
			default:
				assert.Regexp(t, `(?m)^o range objects_order`, plan)
			}
			return nil
		}))
	})
}

// TestSearchesOfThePastReadOnlyWhatFollowed holds that they read the history from their revision on, and no more of it.
func TestSearchesOfThePastReadOnlyWhatFollowed(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		crowd(t, s)
		last, err := s.Revision(t.Context())
		require.NoError(t, err)
		scope := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{"east pods": objectSetOf(sets.New("ns1", "ns2"), nil, nil)}}
		require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) error {
			past := &past{revision: last - 50, last: last, from: -1}
			b, err := newSearch(t.Context(), tx, s.For(scope), []schema.GroupVersionResource{pods.GroupVersionResource}, &query.Query{}, past)
			require.NoError(t, err)
			about := &history.Interest{Filter: scope, Resource: pods.GroupResource(), Query: b.q}
			for name, find := range map[string]*database.Statement{
				"resources": b.resources(), "states": b.endedObjects(nil), "owners": b.endedGeneration(func(*database.Statement) {}),
				"changes": about.Candidates([]string{"east", "west"})(tx, last-50, last, b.kinds),
			} {
				plan := planOf(t, tx, find)
				switch tx.Name() {
				case "sqlite":
					assert.NotRegexp(t, `SCAN (c|e|v)\b`, plan, name)
				case "postgres":
					assert.NotRegexp(t, `Seq Scan on (changes|versions)`, plan, name)
				default:
					assert.NotRegexp(t, `(?m)^(c|e|v) (ALL|index)\b`, plan, name)
				}
			}
			return nil
		}))
	})
}

// planOf returns how the database would run a statement.
func planOf(t *testing.T, tx *database.Tx, s *database.Statement) string {
	t.Helper()
	explain := "EXPLAIN "
	if tx.Name() == "sqlite" {
		explain = "EXPLAIN QUERY PLAN "
	}
	rows, err := tx.Query(t.Context(), s.Within(explain, ""))
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	var plan strings.Builder
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		require.NoError(t, rows.Scan(into...))
		switch tx.Name() {
		case "mysql":
			fmt.Fprintf(&plan, "%s %s %s\n", values[2], values[3], values[5])
		default:
			fmt.Fprintf(&plan, "%v\n", values[len(values)-1])
		}
	}
	require.NoError(t, rows.Err())
	return plan.String()
}
