// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// TestAFairShareIsLostToNobody holds for slots that parties keep.
func TestAFairShareIsLostToNobody(t *testing.T) {
	p := newSlots(10, 10)
	p.steady = true
	ended := map[string]int{}
	ask := func(by string, weight int) (given bool) {
		one := p.add(by, &slot{weight: weight})
		one.park(func() {
			ended[by]++
			go one.leave()
		})
		return one.is(t)
	}
	has := func(by string) int {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waiting > 0 && p.parties[by] == nil {
			return 0
		}
		return p.parties[by].has
	}
	for i := range 12 {
		assert.Equal(t, i < 10, ask("liar", 1))
	}
	assert.Empty(t, ended, "it takes no turns with itself")
	for range 3 {
		ask("a", 1)
	}
	require.Eventually(t, func() bool { return has("a") == 3 }, time.Minute, time.Millisecond)
	assert.Equal(t, 7, has("liar"))
	ask("b", 3) // three at once
	require.Eventually(t, func() bool { return has("b") == 3 }, time.Minute, time.Millisecond)
	ask("c", 1)
	require.Eventually(t, func() bool { return has("c") == 1 }, time.Minute, time.Millisecond)
	assert.Equal(t, []int{3, 3, 3}, []int{has("a"), has("b"), has("liar")}, "it had most")
	assert.Equal(t, map[string]int{"liar": 7}, ended)
}

// count returns how many streams run.
func (m *Member) count() int { return len(m.running()) }

// TestMembersShareWatches has one that would take all, and later others. Its status has what waits, and it gets the rest back.
func TestMembersShareWatches(t *testing.T) {
	s, limiter := newStore(t), newLimiter(t, func(l *Limits) { l.Watches = 100 })
	begin := func(name string, resources int) (m *Member, f *fakeMember, stop func()) {
		f = newFakeMember(t)
		f.resources = []string{"configmaps"}
		for i := range resources - 1 {
			f.resources = append(f.resources, fmt.Sprint("things", i))
		}
		f.put("a")
		m, err := New(name, &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Limiter: limiter})
		require.NoError(t, err)
		m.discoveryInterval = 50 * time.Millisecond
		ctx, cancel := contextFor(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.Run(ctx)
		}()
		stop = func() {
			cancel()
			<-done
		}
		t.Cleanup(stop)
		return m, f, stop
	}
	liar, _, _ := begin("liar", 150)
	have := func(m *Member, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return m.count() == n }, time.Minute, 10*time.Millisecond, "%d of %d", m.count(), n)
	}
	have(liar, 100)
	honest, f, stop := begin("honest", 20)
	have(honest, 20)
	have(liar, 80)
	f.put("b")
	eventually(t, s, "a", "a", "b")
	health, all := liar.Status()
	assert.Contains(t, health.Limit, "70 resources wait: the watches of all clusters are as many as there may be")
	require.Len(t, all, 150)
	waiting := 0
	for _, one := range all {
		if one.Reason == LimitReached {
			waiting++
			assert.Contains(t, one.Message, "--member-watches")
		}
	}
	assert.Equal(t, 70, waiting)
	assert.Equal(t, Syncing, all[0].Phase, "resources of Kubernetes come first")
	health, _ = honest.Status()
	assert.Empty(t, health.Limit)
	third, _, _ := begin("third", 150)
	have(third, 40)
	have(liar, 40)
	assert.Equal(t, 20, honest.count())
	stop()
	have(third, 50)
	have(liar, 50)
}

// TestObjectsThatDecideRightsAreFollowedFirst has a member with more watches than there may be.
func TestObjectsThatDecideRightsAreFollowedFirst(t *testing.T) {
	limiter := newLimiter(t, func(l *Limits) { l.Watches = 100 })
	begin := func(name string) *Member {
		m, err := New(name, &rest.Config{Host: "http://member", Transport: &stops{}}, Everything, Dependencies{Store: newStore(t), Limiter: limiter})
		require.NoError(t, err)
		t.Cleanup(m.stop)
		return m
	}
	var kinds []streams.Kind
	for i := range 120 {
		kind := kindOfConfigMaps
		kind.GroupVersionResource = schema.GroupVersionResource{Group: "a.example.com", Version: "v1", Resource: fmt.Sprint("things", i)}
		kinds = append(kinds, kind)
	}
	kinds = append(kinds, kindOfRoleBindings)
	first, other := begin("first"), begin("other")
	first.adjust(t.Context(), kinds, nil)
	assert.Contains(t, first.running(), kindOfRoleBindings.GroupVersionResource)
	require.NoError(t, other.Only("a", "b", "c", "d"))
	other.adjust(t.Context(), kinds[:120], nil)
	require.Eventually(t, func() bool {
		first.adjust(t.Context(), kinds, nil)
		other.adjust(t.Context(), kinds[:120], nil)
		return first.count() == 52 && other.count() == 12
	}, time.Minute, 10*time.Millisecond, "each namespace has a watch")
	assert.Contains(t, first.running(), kindOfRoleBindings.GroupVersionResource)
	other.adjust(t.Context(), nil, nil)
	assert.Empty(t, other.waits)
}

// TestDiscoveryOfManyVersionsTakesAPermit has client-go ask about all of them at once.
func TestDiscoveryOfManyVersionsTakesAPermit(t *testing.T) {
	var asked atomic.Int64
	m := hostile(t, nil, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case "/version":
			fmt.Fprint(w, `{}`)
		case "/api":
			fmt.Fprint(w, `{"kind":"APIVersions","versions":[]}`)
		case "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupList","groups":[{"name":"g","versions":[{"groupVersion":"g/v","version":"v"}`)
			for i := range 500 {
				fmt.Fprintf(w, `,{"groupVersion":"g/v%d","version":"v%d"}`, i, i)
			}
			fmt.Fprint(w, `]}]}`)
		default:
			asked.Add(1)
			http.NotFound(w, req)
		}
	})
	leave := takeAll(t, m.limiter.large)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.discover(ctx) //nolint:errcheck // it finds nothing
	}()
	require.Eventually(t, func() bool {
		m.limiter.large.mu.Lock()
		defer m.limiter.large.mu.Unlock()
		return m.limiter.large.waiting == 1
	}, time.Minute, time.Millisecond)
	assert.Zero(t, asked.Load())
	leave()
	<-ended
	assert.Positive(t, asked.Load())
	assert.Zero(t, m.limiter.large.count())
}
