// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tripod-k8s/tripod/services/search/store"
)

func readPods(names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: names}
}

func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("web-", i))
	}
	return names
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

// TestTheRBACOfANamespaceClosesThatNamespaceOnly holds for all that a user may write there: something wrong, too large or too many. And only as long as it is there.
func TestTheRBACOfANamespaceClosesThatNamespaceOnly(t *testing.T) {
	wrong := func(w *written, resource, namespace, rules string, deleted bool) {
		text := fmt.Sprintf(`{"metadata": {"namespace": %q, "name": "x"}, "rules": %s}`, namespace, rules)
		change := store.Change{Object: store.Object{Namespace: namespace, Name: "x", UID: "x", ResourceVersion: fmt.Sprint(deleted), JSON: []byte(text)}, Deleted: deleted}
		require.NoError(t, w.Write(t.Context(), w.streams["east"+resource], store.Batch{Changes: []store.Change{change}}))
	}
	for name, test := range map[string]struct {
		limits limits
		do     func(w *written, deleted bool)
		want   []string
	}{
		"a wrong role": {defaultLimits, func(w *written, deleted bool) { wrong(w, "roles", "b", `"everything"`, deleted) }, []string{"east/a/web"}},
		"a role with millions of rules": {
			defaultLimits, func(w *written, deleted bool) {
				wrong(w, "roles", "b", "[{}"+strings.Repeat(",{}", 1<<20)+"]", deleted)
			}, []string{"east/a/web"},
		},
		"a role with too many names for a namespace": {
			limits{cluster: 1 << 20, namespace: 8 << 10, namespaces: 1 << 20, closed: 10, all: 1 << 20},
			func(w *written, deleted bool) {
				w.put("east", "roles", role("b", "x", readPods(manyNames(300)...)), deleted)
			}, []string{"east/a/web"},
		},
		"many bindings": {
			limits{cluster: 1 << 20, namespace: 8 << 10, namespaces: 1 << 20, closed: 10, all: 1 << 20},
			func(w *written, deleted bool) {
				for i := range 20 {
					w.bind("east", "b", fmt.Sprint("group", i), deleted)
				}
			}, []string{"east/a/web"},
		},
		"more than all namespaces may have": {
			limits{cluster: 1 << 20, namespace: 1 << 20, namespaces: 8 << 10, closed: 10, all: 1 << 20},
			func(w *written, deleted bool) {
				w.put("east", "roles", role("b", "x", readPods(manyNames(300)...)), deleted)
			}, []string{"east/a/web"},
		},
		"a wrong cluster role": {defaultLimits, func(w *written, deleted bool) { wrong(w, "clusterroles", "", `"everything"`, deleted) }, nil},
		"a cluster role that is too large": {
			limits{cluster: 8 << 10, namespace: 1 << 20, namespaces: 1 << 20, closed: 10, all: 1 << 20},
			func(w *written, deleted bool) {
				w.put("east", "clusterroles", &rbacv1.ClusterRole{
					ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbacv1.PolicyRule{readPods(manyNames(300)...)},
				}, deleted)
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStore(t)
			w.member("east")
			w.bind("east", "a", "dev", false)
			w.bind("east", "b", "dev", false)
			running := New(w.Store)
			running.limits = test.limits
			v, err := running.AccessSet(t.Context(), alice, "list")
			require.NoError(t, err)
			names, v := w.found(running, v)
			require.Equal(t, []string{"east/a/web", "east/b/web"}, names)
			test.do(w, false)
			names, v = w.foundAnew(running, v)
			assert.Equal(t, test.want, names)
			restarted := New(w.Store)
			restarted.limits = test.limits
			names, _ = w.foundAnew(restarted, v)
			assert.Equal(t, test.want, names, "after a restart")
			test.do(w, true)
			names, _ = w.foundAnew(running, v)
			assert.Equal(t, []string{"east/a/web", "east/b/web"}, names, "it is gone")
		})
	}
}

// TestAClosedNamespaceIsReadAgainAfterAPause holds also if nothing changes any more by then.
func TestAClosedNamespaceIsReadAgainAfterAPause(t *testing.T) {
	w := newStore(t)
	w.member("east")
	w.bind("east", "a", "dev", false)
	large := role("a", "x", readPods(manyNames(300)...))
	w.put("east", "roles", large, false)
	r := New(w.Store)
	r.limits.namespace, r.limits.pause = 8<<10, time.Hour
	v := &AccessSet{reader: alice, verb: "list"}
	names, v := w.foundAnew(r, v)
	assert.Empty(t, names)
	assert.Equal(t, "namespace a: its Roles and RoleBindings take more than 8 KiB", r.TooLarge("east"))
	assert.Empty(t, r.TooLarge("west"))
	assert.InDelta(t, 1, gauge(t, "namespace"), 0)
	w.put("east", "roles", large, true)
	names, v = w.foundAnew(r, v)
	assert.Empty(t, names, "the namespace is left alone for the time of the pause")
	r.members["east"].limits.pause = 0
	names, _ = w.foundAnew(r, v)
	assert.Equal(t, []string{"east/a/web"}, names)
	assert.Empty(t, r.TooLarge("east"))
	assert.Zero(t, gauge(t, "namespace"))
}

// gauge returns the value of the metric for what is closed.
func gauge(t *testing.T, scope string) float64 {
	t.Helper()
	value, err := testutil.GetGaugeMetricValue(closedRights.WithLabelValues(scope))
	require.NoError(t, err)
	return value
}

// TestManyClosedNamespacesCloseTheCluster bounds what is kept of them.
func TestManyClosedNamespacesCloseTheCluster(t *testing.T) {
	w := newStore(t)
	w.member("east")
	w.bind("east", "a", "dev", false)
	r := New(w.Store)
	r.limits.namespace, r.limits.closed = 8<<10, 5
	for i := range 6 {
		w.put("east", "roles", role(fmt.Sprint("n", i), "x", readPods(manyNames(300)...)), false)
	}
	names, _ := w.foundAnew(r, &AccessSet{reader: alice, verb: "list"})
	assert.Empty(t, names)
	m := r.members["east"]
	assert.Contains(t, m.state.Load().unknown, "more than 5 of its namespaces")
	assert.Empty(t, m.objects)
	assert.Zero(t, m.usedInAll)
}

// bound returns a cluster where a group has Roles in namespaces.
func bound(t *testing.T, roles ...*rbacv1.Role) *cluster {
	t.Helper()
	who, err := newIdentities(Policy{})
	require.NoError(t, err)
	c := newCluster(1, who)
	for _, r := range roles {
		c.add(r)
		c.add(&rbacv1.RoleBinding{
			ObjectMeta: r.ObjectMeta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: r.Name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "dev"}},
		})
	}
	c.index()
	return c
}

// TestEqualRulesAreOneGrant holds within a namespace and in several, which share what they have in common.
func TestEqualRulesAreOneGrant(t *testing.T) {
	var roles []*rbacv1.Role
	for i := range 100 {
		roles = append(roles, role("a", fmt.Sprint("r", i), readPods(), readPods(), readPods("web")), role("b", fmt.Sprint("r", i), readPods("web"), readPods()))
	}
	found, err := bound(t, roles...).grantsOf(t.Context(), alice)
	require.NoError(t, err)
	require.Len(t, found, 2)
	assert.Len(t, found[0].namespaces, 2)
	assert.Equal(t, 4, found.size(), "two rules, and the namespaces that they share")
}

// TestANamespaceWithTooManyRulesGrantsNothing holds for a reader to whom they apply, in that namespace only.
func TestANamespaceWithTooManyRulesGrantsNothing(t *testing.T) {
	var many, all []rbacv1.PolicyRule
	for i := range maxRulesOfNamespace + 1 {
		many = append(many, readPods(fmt.Sprint("web-", i)))
	}
	found, err := bound(t, role("a", "x", many...), role("b", "x", readPods())).grantsOf(t.Context(), alice)
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.True(t, found[0].namespaces.Has("b"))

	roles := []*rbacv1.Role{role("zz", "x", readPods())}
	for i := range maxRulesOfAll/maxRulesOfNamespace + 1 {
		all = nil
		for n := range maxRulesOfNamespace {
			all = append(all, readPods(fmt.Sprint("web-", i, "-", n)))
		}
		roles = append(roles, role(fmt.Sprint("n", i), "x", all...))
	}
	found, err = bound(t, roles...).grantsOf(t.Context(), alice)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(found), maxRulesOfAll)
	assert.True(t, found.allow("zz", "web"), "the namespaces with most are left out")
}

// TestKeptGrantsAreBoundedBySize holds for readers with many grants, and that the old state of a cluster is not kept.
func TestKeptGrantsAreBoundedBySize(t *testing.T) {
	c := newCache(1000)
	for i := range 100 {
		c.add(cached{cluster: "east", reader: fmt.Sprint(i), serial: 1, grants: make(grants, 90)})
		assert.LessOrEqual(t, c.size, 1000)
	}
	assert.Equal(t, 10, c.len())
	_, kept := c.get("east", "99", 1)
	assert.True(t, kept)
	_, kept = c.get("east", "99", 2)
	assert.False(t, kept, "another state")
	c.add(cached{cluster: "west", reader: "99", serial: 1, grants: make(grants, 2000)})
	assert.LessOrEqual(t, c.size, 1000)
	c.add(cached{cluster: "west", reader: "99", serial: 1})
	c.replace("east", 2)
	assert.Equal(t, 1, c.len())
	c.add(cached{cluster: "east", reader: "99", serial: 1})
	assert.Equal(t, 1, c.len(), "an older state than the cluster has")
	c.replace("west", 0)
	assert.Zero(t, c.size)
}

// TestAnExpressionThatFailsIsNotEvaluatedAgain holds until the cluster changes, or for a while if time was short.
func TestAnExpressionThatFailsIsNotEvaluatedAgain(t *testing.T) {
	who, err := newIdentities(Policy{Username: "user.groups[7]"})
	require.NoError(t, err)
	r := New(nil)
	c := newCluster(1, who)
	assert.Empty(t, r.grantsOf("east", c, alice, "alice"))
	_, kept := r.grants.get("east", "alice", 1)
	assert.True(t, kept)
	r.grants.add(cached{cluster: "east", reader: "alice", serial: 1, until: time.Now().Add(-time.Second)})
	_, kept = r.grants.get("east", "alice", 1)
	assert.False(t, kept)
}

// TestAClusterRestsAfterARead holds that a cluster with much to read leaves the slots to others most of the time.
func TestAClusterRestsAfterARead(t *testing.T) {
	ended := time.Now()
	m := &clusterRights{ended: ended, took: 100 * time.Millisecond}
	assert.Equal(t, 500*time.Millisecond, m.rest(ended))
	assert.Equal(t, 200*time.Millisecond, m.rest(ended.Add(300*time.Millisecond)))
	assert.LessOrEqual(t, m.rest(ended.Add(time.Minute)), time.Duration(0))
	m.took = time.Minute
	assert.Equal(t, maxRest, m.rest(ended))
	w := newStore(t)
	w.member("east")
	r := New(w.Store)
	require.NoError(t, r.Refresh(t.Context()))
	assert.Positive(t, r.members["east"].took)
}

// TestWhatCannotBeReadOfAResourceClosesTheCluster has a writer of RoleBindings miss changes: each binding may be one that was revoked.
func TestWhatCannotBeReadOfAResourceClosesTheCluster(t *testing.T) {
	w := newStore(t)
	for _, cluster := range []string{"east", "west"} {
		w.member(cluster)
		w.bind(cluster, "a", "dev", false)
	}
	r := New(w.Store)
	v, err := r.AccessSet(t.Context(), alice, "list")
	require.NoError(t, err)
	names, v := w.found(r, v)
	require.Equal(t, []string{"east/a/web", "west/a/web"}, names)
	require.NoError(t, w.CloseRights(t.Context(), w.streams["eastrolebindings"], "too large"))
	names, v = w.found(r, v)
	assert.Equal(t, []string{"west/a/web"}, names, "a search that has begun")
	names, v = w.foundAnew(r, v)
	assert.Equal(t, []string{"west/a/web"}, names)
	require.NoError(t, w.RemoveUnlisted(t.Context(), w.streams["eastrolebindings"], 0))
	names, _ = w.foundAnew(r, v)
	assert.Equal(t, []string{"east/a/web", "west/a/web"}, names)
}

// TestAMemberThatWasForgottenGivesNoWay has a member forgotten after others have chosen it to give way.
func TestAMemberThatWasForgottenGivesNoWay(t *testing.T) {
	w := newStore(t)
	w.member("east")
	w.bind("east", "a", "dev", false)
	r := New(w.Store)
	w.foundAnew(r, &AccessSet{reader: alice, verb: "list"})
	m := r.members["east"]
	m.own.Lock()
	defer m.own.Unlock()
	m.forget()
	assert.False(t, m.giveWay(false, 1))
	assert.Zero(t, r.pool.used)
}

// TestTheLargestNamespacesGiveWay has a user with a namespace in some clusters write so many RBAC objects there that all clusters together have too many.
// These namespaces show nothing then, for a while. All else stays, also in a cluster with many small namespaces.
func TestTheLargestNamespacesGiveWay(t *testing.T) {
	w := newStore(t)
	for _, cluster := range []string{"west", "east", "north"} {
		w.member(cluster)
		w.bind(cluster, "a", "dev", false)
	}
	home, err := Policy{Home: true}.Encode()
	require.NoError(t, err)
	w.member("hub")
	require.NoError(t, w.SetRights(t.Context(), "hub", home))
	w.bind("hub", "a", "dev", false)
	w.put("hub", "roles", role("b", "x", readPods(manyNames(400)...)), false)
	for i := range 20 {
		w.put("west", "roles", role(fmt.Sprint("n", i), "x", readPods(manyNames(5)...)), false)
	}
	r := New(w.Store)
	r.limits.all, r.limits.pause, r.limits.pauseOfAll = 64<<10, time.Hour, time.Hour
	v := &AccessSet{reader: alice, verb: "list"}
	var names []string
	finds := func(want ...string) {
		t.Helper()
		names, v = w.foundAnew(r, v)
		require.Equal(t, want, slices.Sorted(slices.Values(names)))
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		sum := 0
		for _, m := range r.members {
			for _, bytes := range m.used {
				sum += bytes
			}
		}
		require.Equal(t, sum, r.pool.used)
		require.LessOrEqual(t, sum, r.limits.all)
	}
	everywhere := []string{"east/a/web", "hub/a/web", "north/a/web", "west/a/web"}
	large := func(resource, cluster, namespace string, n int, deleted bool) {
		t.Helper()
		w.put(cluster, resource, role(namespace, "x", readPods(manyNames(n)...)), deleted)
	}
	large("roles", "east", "n0", 300, false)
	finds(everywhere...)
	large("roles", "north", "n0", 310, false)
	large("roles", "north", "n1", 320, false)
	finds(everywhere...)
	assert.Contains(t, r.TooLarge("north"), "take more than 64 KiB, and this namespace has most")
	assert.Empty(t, r.TooLarge("west"))
	assert.Empty(t, r.TooLarge("hub"))
	assert.InDelta(t, 0, gauge(t, "cluster"), 0)
	assert.Positive(t, gauge(t, "namespace"))

	w.put("east", "clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbacv1.PolicyRule{readPods(manyNames(1500)...)}}, false)
	finds("hub/a/web", "north/a/web", "west/a/web") // its ClusterRoles take most
	assert.Contains(t, r.TooLarge("east"), "this cluster has most")

	w.put("east", "clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, true)
	large("roles", "north", "n0", 310, true)
	large("roles", "north", "n1", 320, true)
	finds("hub/a/web", "north/a/web", "west/a/web") // it is left alone for the time of the pause
	for _, name := range []string{"east", "north"} {
		r.members[name].limits.pause, r.members[name].limits.pauseOfAll = 0, 0
	}
	finds(everywhere...)
	require.Eventually(t, func() bool { _, v = w.foundAnew(r, v); return r.TooLarge("east")+r.TooLarge("north") == "" }, time.Minute, time.Millisecond)

	require.NoError(t, w.RemoveCluster(t.Context(), "east"))
	names, v = w.foundAnew(r, v)
	assert.ElementsMatch(t, []string{"hub/a/web", "north/a/web", "west/a/web"}, names)
	require.Eventually(t, func() bool {
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		return len(r.pool.of) == 3
	}, time.Minute, time.Millisecond)
	finds("hub/a/web", "north/a/web", "west/a/web")
}

// TestAClusterThatLiesClosesNoOther has clusters with very many small namespaces, or with one large ClusterRole. The RBAC of an honest cluster,
// whose ClusterRoles and one namespace take more than any of these namespaces, stays.
func TestAClusterThatLiesClosesNoOther(t *testing.T) {
	for name, lie := range map[string]func(w *written, cluster string){
		"small namespaces": func(w *written, cluster string) {
			for i := range 45 {
				w.put(cluster, "roles", role(fmt.Sprint("n", i), "x", readPods(manyNames(10)...)), false)
			}
		},
		"a ClusterRole": func(w *written, cluster string) {
			all := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbacv1.PolicyRule{readPods(manyNames(1000)...)}}
			w.put(cluster, "clusterroles", all, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStore(t)
			for _, cluster := range []string{"honest", "liar", "twin"} {
				w.member(cluster)
			}
			w.bind("honest", "a", "dev", false)
			honest := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbacv1.PolicyRule{readPods(manyNames(100)...)}}
			w.put("honest", "clusterroles", honest, false)
			w.put("honest", "roles", role("b", "x", readPods(manyNames(100)...)), false)
			r := New(w.Store)
			r.limits.all, r.limits.pause, r.limits.pauseOfAll = 64<<10, time.Hour, time.Hour
			names, v := w.foundAnew(r, &AccessSet{reader: alice, verb: "list"})
			require.Equal(t, []string{"honest/a/web"}, names)
			lie(w, "liar")
			lie(w, "twin")
			names, _ = w.foundAnew(r, v)
			assert.Equal(t, []string{"honest/a/web"}, names)
			assert.Empty(t, r.TooLarge("honest"))
			assert.Contains(t, r.TooLarge("liar")+r.TooLarge("twin"), "has most")
			require.Eventually(t, func() bool { // they may be being read
				over, _ := r.pool.over(r.limits.all)
				return over == 0
			}, time.Minute, time.Millisecond)
		})
	}
}
