// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/parties"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// tenantParty is one of several members.
var tenantParty = parties.OfPolicy("policy", "tenant")

// silent returns a member whose API server does not answer.
func silent(t *testing.T, limiter *Limiter, name string, party parties.Party) *Member {
	t.Helper()
	m, err := New(name, &rest.Config{Host: "http://member", Transport: &stops{}}, Everything, Dependencies{Store: newStore(t), Limiter: limiter, Party: party})
	require.NoError(t, err)
	t.Cleanup(m.stop)
	return m
}

// manyKinds returns kinds that decide nothing.
func manyKinds(n int) (kinds []streams.Kind) {
	for i := range n {
		kind := kindOfConfigMaps
		kind.GroupVersionResource = schema.GroupVersionResource{Group: "a.example.com", Version: "v1", Resource: fmt.Sprint("things", i)}
		kinds = append(kinds, kind)
	}
	return kinds
}

// watchesOf has a limiter have so few watches.
func watchesOf(limiter *Limiter, n int) {
	limiter.watches = newSteadySlots(n)
}

// TestManyClustersOfAPartyHaveOneShareOfWatches has a party with many clusters take all watches, and then another cluster, which needs half
// of them. TestClustersWithFewWatchesKeepThem is about what clusters have before others.
func TestManyClustersOfAPartyHaveOneShareOfWatches(t *testing.T) {
	const sybils = 10
	limiter := newLimiter(t, nil)
	watchesOf(limiter, 80)
	limiter.watches.small = 0
	var tenant []*Member
	for i := range sybils {
		tenant = append(tenant, silent(t, limiter, fmt.Sprint("sybil", i), tenantParty))
		tenant[i].adjust(t.Context(), manyKinds(20), nil)
	}
	require.Eventually(t, func() bool { return limiter.watches.count() == 80 }, time.Minute, time.Millisecond)
	honest := silent(t, limiter, "honest", parties.Party{})
	require.Eventually(t, func() bool {
		honest.adjust(t.Context(), manyKinds(40), nil)
		return honest.count() == 40
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		all := 0
		for _, m := range tenant {
			m.adjust(t.Context(), manyKinds(20), nil)
			if m.count() != 4 { // they share what the party has
				return false
			}
			all += m.count()
		}
		return all == 40
	}, time.Minute, 10*time.Millisecond)
	assert.Equal(t, 40, honest.count())
}

// TestMembersOfAPartyShareMemoryAndTransactions has two take all that the party may have.
func TestMembersOfAPartyShareMemoryAndTransactions(t *testing.T) {
	limiter := newLimiter(t, nil)
	of := func(name string, party parties.Party) *memberLimiter {
		e := limiter.forMember()
		e.isNamed(name, party)
		return e
	}
	a, b, c, other := of("a", tenantParty), of("b", tenantParty), of("c", tenantParty), of("other", parties.Party{})
	for _, one := range []*memberLimiter{a, b} {
		require.NoError(t, one.hold(t.Context(), one.share))
		for range writesAtOnce {
			begun := make(chan struct{})
			end := make(chan struct{})
			t.Cleanup(func() { close(end) })
			go one.write(t.Context(), func() error { //nolint:errcheck // it fails in nothing
				close(begun)
				<-end
				return nil
			})
			<-begun
		}
	}
	assert.False(t, c.tryHold(1))
	assert.True(t, c.rights.tryHold(1), "what decides about rights waits for nothing else")
	assert.True(t, other.tryHold(other.share))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	nothing := func() error { return nil }
	require.ErrorIs(t, c.write(ended, nothing), context.Canceled)
	require.NoError(t, c.rights.write(t.Context(), nothing))
	require.NoError(t, other.write(t.Context(), nothing))
	a.release(a.share)
	assert.True(t, c.tryHold(c.share))
}

// TestAPartyThatNeedsManyPlacesKeepsFewFromOthers has one that needs more at once than an equal share is, and another one that needs one
// slot.
func TestAPartyThatNeedsManyPlacesKeepsFewFromOthers(t *testing.T) {
	p := newSlots(10, 10)
	p.steady, p.grace = true, 20*time.Millisecond
	var all []*slot
	for i := range 6 {
		one := p.ask(fmt.Sprint(i), nil)
		require.True(t, one.is(t))
		one.park(func() { go one.leave() })
		all = append(all, one)
	}
	heavy := p.add("heavy", &slot{weight: 5})
	later := p.ask("later", nil)
	assert.False(t, later.is(t), "the heavy one is before")
	select {
	case <-later.given:
	case <-time.After(time.Minute):
		require.Fail(t, "it waits for ever")
	}
	assert.False(t, heavy.is(t))
	for range 2 { // whenever that is, free slots are kept for the heavy one again
		all[0].leave()
		all = all[1:]
	}
	select {
	case <-heavy.given:
	case <-time.After(time.Minute):
		require.Fail(t, "there are as many as it needs")
	}
	for _, one := range append(all, heavy, later) {
		one.leave()
	}
	assert.Zero(t, p.count())
}

// TestAPlaceThatIsNotLeftKeepsNoOtherWaiting has one that should be left, and is not.
func TestAPlaceThatIsNotLeftKeepsNoOtherWaiting(t *testing.T) {
	p := newSlots(4, 4)
	p.steady, p.grace = true, 10*time.Millisecond
	var hangs *slot
	for range p.all {
		one := p.ask("liar", nil)
		one.park(func() {
			if hangs == nil {
				hangs = one
				return
			}
			go one.leave()
		})
	}
	one := p.ask("honest", nil)
	select {
	case <-one.given:
	case <-time.After(time.Minute):
		require.Fail(t, "it waits for ever")
	}
	p.mu.Lock()
	assert.Zero(t, p.ending)
	assert.Zero(t, p.freeing)
	assert.Equal(t, 3, p.parties["liar"].has, "it counts what it does not leave")
	p.mu.Unlock()
	hangs.leave()
	p.mu.Lock()
	assert.Equal(t, 2, p.parties["liar"].has)
	p.mu.Unlock()
	assert.Equal(t, 3, p.count())
	one.leave()
	assert.Equal(t, 2, p.count())
}

// A party that leaves no slot is known until it has left all of them. Otherwise it would be a new one, with none, when it asks again.
func TestAPartyThatLeavesNothingIsNotForgotten(t *testing.T) {
	p := newSlots(2, 2)
	p.grace = 10 * time.Millisecond
	var hang []*slot
	ended := 0
	for range p.all {
		one := p.ask("liar", nil)
		one.park(func() { ended++ })
		hang = append(hang, one)
	}
	waiting := []*slot{p.ask("a", nil), p.ask("b", nil), p.ask("c", nil)}
	p.mu.Lock()
	assert.Equal(t, 2, ended)
	p.mu.Unlock()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.ending == 0
	}, time.Minute, time.Millisecond, "it has not left them in time")
	for _, one := range waiting {
		one.leave()
	}
	again, honest := p.ask("liar", nil), p.ask("honest", nil)
	hang[0].leave()
	select {
	case <-honest.given:
	case <-again.given:
		assert.Fail(t, "the party still has a slot")
	case <-time.After(time.Minute):
		assert.Fail(t, "nobody gets the slot")
	}
}

// TestAPlaceThatIsNotUsedGoesToOthers has a member get slots while its discovery goes on.
func TestAPlaceThatIsNotUsedGoesToOthers(t *testing.T) {
	limiter := newLimiter(t, nil)
	watchesOf(limiter, 2)
	m, kinds := silent(t, limiter, "drips", parties.Party{}), manyKinds(2)
	leave := takeAll(t, limiter.watches)
	for _, kind := range kinds {
		require.Nil(t, m.enter(kind))
	}
	leave()
	assert.Equal(t, 2, limiter.watches.count(), "it has them")
	other := limiter.watches.ask("other", nil)
	select {
	case <-other.given:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing takes the slot back")
	}
	var has []*slot
	for _, kind := range kinds {
		if one := m.enter(kind); one != nil {
			has = append(has, one)
		}
	}
	require.Len(t, has, 1, "it waits for the other one anew")
	assert.Len(t, m.waits, 1)
	other.leave()
	has[0].leave()
}

// rbacKinds are those of RBAC objects.
func rbacKinds() (kinds []streams.Kind) {
	for _, resource := range []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"} {
		kinds = append(kinds, streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource(resource), Name: resource})
	}
	return kinds
}

// closed returns why rights in a cluster are not known.
func (m *Member) closed(t *testing.T) (why string) {
	t.Helper()
	require.NoError(t, m.store.ReadRights(t.Context(), m.name, func(r *access.RightsReading) error {
		why = r.Closed
		return nil
	}))
	return why
}

// TestRightsCloseWhenTheirWatchesGiveWay has clusters follow RBAC objects with all watches that there are, and one more that needs some.
func TestRightsCloseWhenTheirWatchesGiveWay(t *testing.T) {
	limiter := newLimiter(t, nil)
	watchesOf(limiter, 4)
	m := silent(t, limiter, "many", parties.Party{})
	require.NoError(t, m.store.SetRights(t.Context(), m.name, "{}"))
	m.adjust(t.Context(), rbacKinds(), nil)
	require.Equal(t, 4, m.count())
	for _, r := range m.running() {
		require.Eventually(t, func() bool { return r.opened.Load() != nil }, time.Minute, time.Millisecond)
	}
	assert.Empty(t, m.closed(t))
	other := silent(t, limiter, "new", parties.Party{})
	require.Eventually(t, func() bool {
		other.adjust(t.Context(), rbacKinds()[:1], nil)
		return other.count() == 1
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return m.closed(t) != "" }, time.Minute, 10*time.Millisecond)
	assert.Contains(t, m.closed(t), "--member-watches")
}

// TestRightsCloseWhileTheirWatchWaits has a cluster whose RBAC objects were copied before, and now no watch is free.
func TestRightsCloseWhileTheirWatchWaits(t *testing.T) {
	limiter := newLimiter(t, nil)
	watchesOf(limiter, 1)
	limiter.watches.grace = 10 * time.Millisecond
	defer takeAll(t, limiter.watches)()
	m := silent(t, limiter, "late", parties.Party{})
	require.NoError(t, m.store.SetRights(t.Context(), m.name, "{}"))
	target, err := m.store.OpenStream(t.Context(), m.name, kindOfRoleBindings)
	require.NoError(t, err)
	require.NoError(t, m.store.Sweep(t.Context(), target, 1, ""))
	m.adjust(t.Context(), []streams.Kind{kindOfRoleBindings, kindOfConfigMaps}, nil)
	assert.Empty(t, m.closed(t), "it may get one soon")
	select {
	case <-m.granted:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing has it look again")
	}
	m.adjust(t.Context(), []streams.Kind{kindOfRoleBindings, kindOfConfigMaps}, nil)
	assert.Contains(t, m.closed(t), "--member-watches")
	m.forgo(func(schema.GroupVersionResource) bool { return true })
}

// TestFewAllowancesOutliveTheirMembers has PediaClusters come and go under new names, beside one that has used its allowance.
func TestFewAllowancesOutliveTheirMembers(t *testing.T) {
	limiter := newLimiter(t, nil)
	use(limiter.allowanceOf("greedy").kinds)
	limiter.Forget("greedy")
	stays := limiter.allowanceOf("stays")
	use(stays.kinds)
	for n := range allowancesOfGone + 50 {
		name := fmt.Sprint(n)
		limiter.allowanceOf(name).kinds.Allow()
		limiter.Forget(name)
	}
	assert.Len(t, limiter.allowances, allowancesOfGone+1)
	assert.Same(t, stays, limiter.allowanceOf("stays"))
	assert.Less(t, limiter.allowanceOf("greedy").kinds.Tokens(), 100.0, "it gets no new one")
}
