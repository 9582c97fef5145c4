// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// given is a scope with certain parts, by "CLUSTER RESOURCE". asOf is the last change of rights that it knows, and generation that of each cluster.
type given struct {
	asOf       int64
	parts      map[string]*access.ObjectSet
	generation int64
}

func (g given) AsOf() int64 { return g.asOf }

func (g given) Generation(string) int64 { return g.generation }

func (g given) Home() string { return "" }

// lastRights returns the last change of rights.
func lastRights(t testing.TB, s *Store) int64 {
	t.Helper()
	index, err := s.RightsIndex(context.Background())
	require.NoError(t, err)
	return index.Changed
}

func (g given) ObjectSet(cluster string, resource schema.GroupResource) *access.ObjectSet {
	return g.parts[cluster+" "+resource.String()]
}

func randomPart(r *rand.Rand, all []known) *access.ObjectSet {
	namespaces, names, objects := sets.New[string](), sets.New[string](), sets.New[[2]string]()
	for range r.IntN(3) {
		switch o := all[r.IntN(len(all))]; r.IntN(6) {
		case 0:
			return access.AllObjects
		case 1, 2:
			namespaces.Insert(pick(r, []string{"default", "kube-system", "team_a", "Team", "teamXa", "TEAM"}))
		case 3:
			names.Insert(o.Name)
		default:
			objects.Insert([2]string{o.Namespace, o.Name}, [2]string{"default", o.Name})
		}
	}
	return objectSetOf(namespaces, names, objects)
}

// objectSetOf is access.NewObjectSet for sets.
func objectSetOf(namespaces, names sets.Set[string], objects sets.Set[[2]string]) *access.ObjectSet {
	return access.NewObjectSet(namespaces.UnsortedList(), names.UnsortedList(), objects.UnsortedList())
}

// TestAScopeHidesTheRest holds that a search with a scope finds what it would find if the database had nothing else. Owners, counts and pages included.
func TestAScopeHidesTheRest(t *testing.T) {
	const queries = 400
	each(t, func(t *testing.T, s *Store) {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 0))
		all := population(t, s, r)
		changed := lastRights(t, s)
		some := 0
		for range queries {
			scope := given{asOf: changed, parts: map[string]*access.ObjectSet{}}
			shared := randomPart(r, all)
			for _, cluster := range []string{"east", "north", "west"} {
				for _, kind := range []streams.Kind{deployments, replicaSets, pods, nodes} {
					part := shared
					if r.IntN(2) == 0 {
						part = randomPart(r, all)
					}
					scope.parts[cluster+" "+kind.GroupResource().String()] = part
				}
			}
			var visible []known
			for _, o := range all {
				if scope.ObjectSet(o.cluster, o.kind.GroupResource()).Has(o.Namespace, o.Name) {
					visible = append(visible, o)
				}
			}
			q := randomQuery(r, all)
			s.many = pick(r, manyOrFew)
			if r.IntN(2) == 0 {
				q.Labels, q.Fields = nil, nil // more is found
			}
			kinds := pick(r, [][]streams.Kind{{pods}, {pods}, {replicaSets}, {nodes}, {deployments, pods, replicaSets}})
			want := expected(visible, q, kinds)
			inOrder(want, q, len(kinds) > 1)
			rest := want[min(int(q.Offset), len(want)):]
			if q.Limit > 0 {
				rest = rest[:min(int(q.Limit), len(rest))]
			}
			var wanted []string
			for _, o := range rest {
				wanted = append(wanted, o.String())
			}
			got, page := names(t, s.For(scope), q, kinds...)
			if !assert.Equal(t, wanted, got, "seed %d, %s", seed, described(q)) {
				return
			}
			assert.Contains(t, remaining(s, q, page, len(want)-int(q.Offset)-len(got)), page.Remaining, "seed %d, %s", seed, described(q))
			assert.Equal(t, q.Limit > 0 && len(want) > int(q.Offset+q.Limit), page.More, "seed %d, %s", seed, described(q))
			if len(got) > 0 {
				some++
			}
			o := all[r.IntN(len(all))]
			_, err := s.For(scope).Get(t.Context(), o.cluster, o.kind.GroupVersionResource, o.Namespace, o.Name)
			assert.Equal(t, !slices.ContainsFunc(visible, func(v known) bool { return v.UID == o.UID }), err != nil, "seed %d: %v", seed, err)
		}
		assert.Greater(t, some, queries/10, "few queries find anything: seed %d", seed)
	})
}

func TestAnOldScopeIsRefused(t *testing.T) {
	roles := streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource("roles"), Name: "Role", Namespaced: true}
	each(t, func(t *testing.T, s *Store) {
		stream, podStream := openStream(t, s, "east", roles), openStream(t, s, "east", pods)
		west := openStream(t, s, "west", roles)
		require.NoError(t, s.SetRights(t.Context(), "east", `{"userPrefix": "x"}`))
		require.NoError(t, s.SetRights(t.Context(), "west", `{}`))
		now := func() given {
			index, err := s.RightsIndex(t.Context())
			require.NoError(t, err)
			return given{asOf: index.Changed, generation: index.Generations["east"], parts: map[string]*access.ObjectSet{"east pods": access.AllObjects}}
		}
		role := func(version, rules string, labels string) Batch {
			o := object("a", "r", version)
			o.JSON = []byte(`{"metadata": {"name": "r", "namespace": "a", "labels": {"a": "` + labels + `"}}, "rules": ` + rules + `}`)
			return Batch{Changes: []Change{{Object: o}}}
		}
		const some, other = `[{"verbs": ["get"], "resources": ["pods"]}, {"verbs": ["list"]}]`, `[{"verbs": ["list"]}, {"verbs": ["get"], "resources": ["pods"]}]`
		for _, test := range []struct {
			name   string
			change func() error
			same   bool
		}{
			{"a pod", func() error {
				return s.Write(t.Context(), podStream, Batch{Changes: []Change{{Object: object("a", "web", "1")}}})
			}, true},
			{"a bookmark", func() error { return s.Write(t.Context(), stream, Batch{ResourceVersion: "5"}) }, true},
			{"a role", func() error { return s.Write(t.Context(), stream, role("1", some, "x")) }, false},
			{"a label of a role", func() error { return s.Write(t.Context(), stream, role("1.1", some, "y")) }, true},
			{"rules in another order", func() error { return s.Write(t.Context(), stream, role("1.2", other, "y")) }, true},
			{"a rule", func() error { return s.Write(t.Context(), stream, role("1.3", `[{"verbs": ["list"]}]`, "y")) }, false},
			{"rules that are wrong", func() error { return s.Write(t.Context(), stream, role("1.4", `"everything"`, "y")) }, false},
			{"rules that are right again", func() error { return s.Write(t.Context(), stream, role("1.5", some, "y")) }, false},
			{"a role of another cluster", func() error { return s.Write(t.Context(), west, role("1", some, "x")) }, true},
			{"a role that goes", func() error {
				return s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: object("a", "r", "2"), Deleted: true}}})
			}, false},
			{"a list", func() error { return s.Sweep(t.Context(), stream, 1, "6") }, false},
			{"a policy", func() error { return s.SetRights(t.Context(), "east", "{}") }, false},
			{"a stream that ends", func() error { return s.CloseStream(t.Context(), stream) }, false},
			{"a cluster that goes", func() error { return s.RemoveCluster(t.Context(), "east") }, false},
		} {
			scope := now()
			before, err := s.Revision(t.Context())
			require.NoError(t, err)
			require.NoError(t, test.change(), test.name)
			assert.Equal(t, test.same, now().generation == scope.generation, test.name)
			changed, err := s.RightsChangedSince(t.Context(), before, []string{"east"})
			require.NoError(t, err)
			assert.Equal(t, !test.same, changed, test.name)
			wanted := access.ErrRightsChanged
			if test.same {
				wanted = nil
			}
			if test.name != "a cluster that goes" { // it shows nothing any more
				_, err = s.For(scope).List(t.Context(), nil, &query.Query{}, func(Found) error { return nil })
				assert.ErrorIs(t, err, wanted, test.name)
			}
			_, err = s.For(scope).Get(t.Context(), "east", pods.GroupVersionResource, "a", "web")
			assert.Equal(t, test.same, !errors.Is(err, access.ErrRightsChanged), "%s: %v", test.name, err)
		}
		policies, err := s.RightsPolicies(t.Context())
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"west": "{}"}, policies)

		require.NoError(t, s.SetRights(t.Context(), "west", ""))
		stream = openStream(t, s, "east", roles)
		require.NoError(t, s.SetRights(t.Context(), "east", "{}"))
		require.NoError(t, s.Sweep(t.Context(), stream, 1, "7"))
		scope := now()
		openStream(t, s, "east", roles)
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "west", roles), Batch{Changes: []Change{{Object: object("a", "r", "1")}}}))
		assert.Equal(t, scope, now(), "neither a replica that starts nor a cluster without a policy changes rights")
	})
}

// TestAClusterThatNamesTooMuchKeepsNobodyFromOthers has one cluster name more for a reader than a statement can bind, in all ways: in one resource, in many, and
// with a neighbour that names the same.
func TestAClusterThatNamesTooMuchKeepsNobodyFromOthers(t *testing.T) {
	names := func(n int, prefix string) sets.Set[string] {
		all := sets.New[string]()
		for i := range n {
			all.Insert(fmt.Sprint(prefix, i))
		}
		return all
	}
	roles := streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource("roles"), Name: "Role", Namespaced: true}
	honest := objectSetOf(names(1000, "ns"), nil, nil)
	each(t, func(t *testing.T, s *Store) {
		for _, cluster := range []string{"honest", "liar", "twin"} {
			for _, kind := range []streams.Kind{pods, roles} {
				require.NoError(t, s.Write(t.Context(), openStream(t, s, cluster, kind), Batch{Changes: []Change{{Object: object("ns7", "web", "1")}}}))
			}
		}
		for name, liar := range map[string][2]*access.ObjectSet{
			"one resource":  {objectSetOf(names(access.MaxValues, "x"), nil, nil), honest},
			"two resources": {objectSetOf(names(access.MaxValues/2, "x"), nil, nil), objectSetOf(nil, names(access.MaxValues/2, "y"), nil)},
		} {
			scope := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{
				"honest pods": honest, "honest roles.rbac.authorization.k8s.io": honest,
				"liar pods": liar[0], "liar roles.rbac.authorization.k8s.io": liar[1], "twin pods": liar[0], "twin roles.rbac.authorization.k8s.io": liar[1],
			}}
			clusters := sets.New[string]()
			page, err := s.For(scope).List(t.Context(), []schema.GroupVersionResource{pods.GroupVersionResource, roles.GroupVersionResource}, &query.Query{},
				func(f Found) error { clusters.Insert(f.Cluster); return nil })
			require.NoError(t, err, name)
			assert.Equal(t, []string{"honest"}, sets.List(clusters), name)
			assert.ElementsMatch(t, []string{"liar", "twin"}, page.LeftOut, name)
		}
	})
}

// TestANamespaceThatNamesTooManyObjectsKeepsNobodyFromOthers has the Roles of one namespace name more objects for a reader than a statement can bind.
func TestANamespaceThatNamesTooManyObjectsKeepsNobodyFromOthers(t *testing.T) {
	objects := sets.New([2]string{"ns1", "web"}, [2]string{"ns2", "web"})
	for i := range access.MaxValues/2 + 500 {
		objects.Insert([2]string{"ns2", fmt.Sprint("web-", i)})
	}
	each(t, func(t *testing.T, s *Store) {
		for _, cluster := range []string{"east", "west"} {
			for _, namespace := range []string{"ns1", "ns2", "ns3"} {
				require.NoError(t, s.Write(t.Context(), openStream(t, s, cluster, pods), Batch{Changes: []Change{{Object: object(namespace, "web", "1")}}}))
			}
		}
		scope := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{
			"east pods": objectSetOf(sets.New("ns3"), nil, objects), "west pods": objectSetOf(sets.New("ns2"), nil, sets.New([2]string{"ns1", "web"})),
		}}
		for _, clusters := range [][]string{nil, {"east"}} {
			var names []string
			page, err := s.For(scope).List(t.Context(), []schema.GroupVersionResource{pods.GroupVersionResource}, &query.Query{Clusters: query.Choice{In: clusters}},
				func(f Found) error { names = append(names, f.Cluster); return nil })
			require.NoError(t, err)
			assert.Len(t, names, map[bool]int{true: 4, false: 2}[clusters == nil])
			assert.Equal(t, []string{"east (objects by name in namespace ns2)"}, page.LeftOut)
		}
		scope.parts["east pods"] = objectSetOf(nil, nil, objects.Clone().Delete([2]string{"ns1", "web"}))
		_, err := s.For(scope).List(t.Context(), []schema.GroupVersionResource{pods.GroupVersionResource}, &query.Query{Clusters: query.Choice{In: []string{"east"}}},
			func(Found) error { return nil })
		assert.ErrorIs(t, err, access.ErrFilterTooLarge, "nothing else is there")
	})
}

// TestAScopeThatIsTooLargeIsRefused holds for what a statement can bind, and that what a search names makes a scope smaller.
func TestAScopeThatIsTooLargeIsRefused(t *testing.T) {
	namespaces := sets.New[string]()
	for i := range access.MaxValues + 1 {
		namespaces.Insert(fmt.Sprint("ns", i))
	}
	each(t, func(t *testing.T, s *Store) {
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "east", pods), Batch{Changes: []Change{{Object: object("ns7", "web", "1")}}}))
		scope := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{"east pods": objectSetOf(namespaces, nil, nil)}}
		ask := func(q query.Query) (n int, err error) {
			_, err = s.For(scope).List(context.Background(), []schema.GroupVersionResource{pods.GroupVersionResource}, &q, func(Found) error { n++; return nil })
			return n, err
		}
		_, err := ask(query.Query{})
		require.ErrorIs(t, err, access.ErrFilterTooLarge)
		n, err := ask(query.Query{Namespaces: query.Choice{In: []string{"ns7"}}})
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		scope.parts["east pods"] = objectSetOf(sets.New(sets.List(namespaces)[:access.MaxValues-10]...), nil, nil)
		n, err = ask(query.Query{})
		require.NoError(t, err)
		assert.Equal(t, 1, n, "as many as a statement can")
	})
}
