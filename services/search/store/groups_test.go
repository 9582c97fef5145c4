// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func randomGroups(r *rand.Rand) (all []query.GroupBy) {
	for range 1 + r.IntN(3) {
		if r.IntN(2) == 0 {
			all = append(all, query.GroupBy{Column: pick(r, []query.Column{query.Cluster, query.Namespace, query.Kind, query.Resource, query.Group, query.Version})})
			continue
		}
		parsed, err := query.ParseFields(pick(r, slices.Concat(fieldPaths, []string{"spec.sorted", "metadata.labels['rank']", "spec"})))
		if err != nil {
			panic(err)
		}
		all = append(all, query.GroupBy{Path: parsed[0].Paths[0]})
	}
	return all
}

// groupsOf counts objects as the store does.
func groupsOf(found []known, by []query.GroupBy) (groups []Counted) {
	for _, o := range found {
		values := make([]string, len(by))
		for i, g := range by {
			switch {
			case len(g.Path) > 0:
				values[i] = o.subject().RankAt(g.Path).Text
			case g.Column == query.Cluster:
				values[i] = o.cluster
			case g.Column == query.Namespace:
				values[i] = o.Namespace
			case g.Column == query.Kind:
				values[i] = o.kind.Name
			case g.Column == query.Resource:
				values[i] = o.kind.Resource
			case g.Column == query.Group:
				values[i] = o.kind.Group
			case g.Column == query.Version:
				values[i] = o.kind.Version
			}
		}
		i := slices.IndexFunc(groups, func(g Counted) bool { return slices.Equal(g.Values, values) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, Counted{Values: values})
		}
		groups[i].Count++
	}
	slices.SortFunc(groups, func(a, b Counted) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Values, b.Values))
	})
	return groups
}

// TestGroupsCountWhatAListFinds holds also for readers with few rights.
func TestGroupsCountWhatAListFinds(t *testing.T) {
	const queries = 200
	each(t, func(t *testing.T, s *Store) {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 0))
		all := population(t, s, r)
		changed, some := lastRights(t, s), 0
		for range queries {
			q := randomQuery(r, all)
			q.Order, q.Offset, q.GroupBy = nil, 0, randomGroups(r)
			if r.IntN(2) == 0 {
				q.Labels, q.Fields, q.Owner = nil, nil, nil // more is found
			}
			kinds := pick(r, [][]streams.Kind{{pods}, {nodes}, {deployments, pods, replicaSets}})
			var patterns []schema.GroupVersionResource
			for _, kind := range kinds {
				patterns = append(patterns, kind.GroupVersionResource)
			}
			var filter access.Filter
			visible := all
			if r.IntN(2) == 0 {
				scope := given{asOf: changed, parts: map[string]*access.ObjectSet{}}
				for _, cluster := range []string{"east", "north", "west"} {
					for _, kind := range []streams.Kind{deployments, replicaSets, pods, nodes} {
						scope.parts[cluster+" "+kind.GroupResource().String()] = randomPart(r, all)
					}
				}
				filter = scope
				visible = slices.DeleteFunc(slices.Clone(all), func(o known) bool {
					return !scope.ObjectSet(o.cluster, o.kind.GroupResource()).Has(o.Namespace, o.Name)
				})
			}
			found := expected(visible, q, kinds)
			want := groupsOf(found, q.GroupBy)
			counts, err := s.For(filter).Counts(t.Context(), patterns, &q)
			require.NoError(t, err)
			shown := want[:min(len(want), int(cmp.Or(q.Limit, query.StandardGroups)))]
			require.Equal(t, append([]Counted(nil), shown...), counts.Groups, "seed %d, %s", seed, described(q))
			if len(want) > 0 {
				some++
				assert.Equal(t, int64(len(want)), counts.AllGroups, "seed %d, %s", seed, described(q))
				assert.Equal(t, int64(len(found)), counts.Objects, "seed %d, %s", seed, described(q))
			}
		}
		assert.Greater(t, some, queries/10, "seed %d", seed)
	})
}
