// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/parties"
)

// memberOf begins to copy a cluster that a party has made.
func (w *written) memberOf(party, cluster string) {
	w.t.Helper()
	w.member(cluster)
	text, err := Policy{Party: party}.Encode()
	require.NoError(w.t, err)
	require.NoError(w.t, w.SetRights(w.t.Context(), cluster, text))
}

// clusterRole has a cluster have a ClusterRole with many names.
func (w *written) clusterRole(cluster string, names int) {
	w.t.Helper()
	w.put(cluster, "clusterroles", &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbacv1.PolicyRule{readPods(manyNames(names)...)},
	}, false)
}

// TestManyClustersCloseNoOther has many clusters that take a little less each than an equal share for all clusters is. An honest one, which takes more,
// stays whole: the others are one party, or are newer.
func TestManyClustersCloseNoOther(t *testing.T) {
	const sybils = 20
	for name, begin := range map[string]func(w *written, honest, sybils func(party string)){
		"those of one party that were there first": func(_ *written, honest, sybils func(string)) {
			sybils("policy/tenant")
			honest("")
		},
		"those that are newer": func(_ *written, honest, sybils func(string)) {
			honest("")
			sybils("")
		},
		"those that are newer than a cluster of a party": func(_ *written, honest, sybils func(string)) {
			honest("policy/fleet")
			sybils("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStore(t)
			begin(w, func(party string) { w.memberOf(party, "honest") }, func(party string) {
				for i := range sybils {
					w.memberOf(party, fmt.Sprint("sybil", i))
				}
			})
			w.bind("honest", "a", "dev", false)
			w.clusterRole("honest", 100)
			w.put("honest", "roles", role("b", "x", readPods(manyNames(100)...)), false)
			r := New(w.Store)
			r.limits.all, r.limits.pause, r.limits.pauseOfAll = 64<<10, time.Hour, time.Hour
			names, v := w.foundAnew(r, &AccessSet{reader: alice, verb: "list"})
			require.Equal(t, []string{"honest/a/web"}, names)
			for i := range sybils {
				w.put(fmt.Sprint("sybil", i), "roles", role("n", "x", readPods(manyNames(58)...)), false)
			}
			names, _ = w.foundAnew(r, v)
			assert.Equal(t, []string{"honest/a/web"}, names)
			require.Eventually(t, func() bool { // they may be being read
				over, _ := r.pool.over(r.limits.all)
				return over == 0
			}, time.Minute, time.Millisecond)
			assert.Empty(t, r.TooLarge("honest"))
			closed := ""
			for i := range sybils {
				closed += r.TooLarge(fmt.Sprint("sybil", i))
			}
			assert.Contains(t, closed, "has most")
		})
	}
}

// TestTheClustersOfAPartyShareWhatItHas has one of them take most.
func TestTheClustersOfAPartyShareWhatItHas(t *testing.T) {
	w := newStore(t)
	for _, cluster := range []string{"liar", "honest", "other"} {
		w.memberOf("policy/fleet", cluster)
	}
	w.member("alone")
	w.bind("honest", "a", "dev", false)
	w.bind("alone", "a", "dev", false)
	for _, cluster := range []string{"honest", "other", "alone"} {
		w.clusterRole(cluster, 100)
	}
	r := New(w.Store)
	r.limits.all, r.limits.pause, r.limits.pauseOfAll = 64<<10, time.Hour, time.Hour
	names, v := w.foundAnew(r, &AccessSet{reader: alice, verb: "list"})
	require.ElementsMatch(t, []string{"alone/a/web", "honest/a/web"}, names)
	w.clusterRole("liar", 1500)
	names, _ = w.foundAnew(r, v)
	assert.ElementsMatch(t, []string{"alone/a/web", "honest/a/web"}, names)
	assert.Contains(t, r.TooLarge("liar"), "this cluster has most")
}

// TestWhoWritesRolesClosesNoClusterRoles has a user write Roles in a namespace until all clusters together have too much, with ClusterRoles that
// are most of what their cluster has.
func TestWhoWritesRolesClosesNoClusterRoles(t *testing.T) {
	w := newStore(t)
	const others = 3
	for i := range others {
		name := fmt.Sprint("other", i)
		w.member(name)
		w.put(name, "roles", role("n", "x", readPods(manyNames(300)...)), false)
	}
	w.member("honest")
	w.bind("honest", "a", "dev", false)
	w.clusterRole("honest", 350)
	r := New(w.Store)
	r.limits.all, r.limits.pause, r.limits.pauseOfAll = 64<<10, time.Hour, time.Hour
	names, v := w.foundAnew(r, &AccessSet{reader: alice, verb: "list"})
	require.Equal(t, []string{"honest/a/web"}, names)
	w.put("honest", "roles", role("tenant", "x", readPods(manyNames(320)...)), false)
	m := r.members["honest"]
	names, _ = w.foundAnew(r, v)
	assert.Equal(t, []string{"honest/a/web"}, names)
	assert.Contains(t, r.TooLarge("honest"), "namespace tenant: the RBAC objects of all clusters take more than 64 KiB")
	assert.Greater(t, m.used[clusterWide], m.usedInAll, "the ClusterRoles are most")
}

// TestWhoReadsBesideTheFirstToGiveWayComparesNoMembers has one read objects while another one, which has most, is being read.
func TestWhoReadsBesideTheFirstToGiveWayComparesNoMembers(t *testing.T) {
	r := &Rights{limits: defaultLimits}
	r.limits.all = 1 << 20
	p := &pool{rights: r, of: map[*clusterRights]taken{}}
	r.pool = p
	member := func(name string, bytes int) *clusterRights {
		m := &clusterRights{
			name: name, limits: r.limits, place: place{pool: p, party: parties.OfCluster(name)},
			used: map[string]int{"a": bytes}, usedInAll: bytes, most: bytes, closed: map[string]string{},
		}
		m.add(m, bytes)
		return m
	}
	most, reader := member("most", 500<<10), member("reader", 100<<10)
	for i := range 100 {
		member(fmt.Sprint("c", i), 4600)
	}
	for _, m := range []*clusterRights{most, reader} {
		m.own.Lock()
	}
	p.makeRoom(reader)
	over, candidates := p.over(r.limits.all)
	require.Positive(t, over)
	require.Same(t, most, candidates[0].member)
	assert.Zero(t, testing.AllocsPerRun(10, func() { p.makeRoom(reader) }))
	reader.add(reader, r.limits.all/recheckParts+1)
	before := p.asOf
	p.makeRoom(reader)
	assert.Greater(t, p.asOf, before, "it has much more by now")
	assert.NotZero(t, testing.AllocsPerRun(1, func() { p.makeRoom(nil) }), "one may not be being read any more")
	assert.True(t, p.looks(most, r.limits.all), "it makes room")
}
