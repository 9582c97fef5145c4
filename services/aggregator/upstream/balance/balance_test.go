// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// loaded returns an endpoint with these requests in flight.
func loaded(name string, short, watches int) *Endpoint {
	e := NewEndpoint(name)
	for range short {
		e.Begin(Short)
	}
	for range watches {
		e.Begin(Watch)
	}
	return e
}

func penalized(e *Endpoint, times int) *Endpoint {
	for range times {
		e.Penalize()
	}
	return e
}

func TestTwoChoices(t *testing.T) {
	tests := []struct {
		name      string
		kind      Kind
		endpoints func() []*Endpoint
		// want are the endpoints that the policy picks in the long run.
		want []int
	}{
		{name: "one", endpoints: func() []*Endpoint { return []*Endpoint{loaded("a", 9, 9)} }, want: []int{0}},
		{name: "equal ones", endpoints: func() []*Endpoint { return []*Endpoint{loaded("a", 1, 0), loaded("b", 1, 0)} }, want: []int{0, 1}},
		{name: "the one with fewer requests", endpoints: func() []*Endpoint { return []*Endpoint{loaded("a", 2, 0), loaded("b", 1, 0)} }, want: []int{1}},
		{name: "whatever it has watches", endpoints: func() []*Endpoint { return []*Endpoint{loaded("a", 2, 0), loaded("b", 1, 1000)} }, want: []int{1}},
		{name: "the one with fewer watches, for a watch", kind: Watch, endpoints: func() []*Endpoint { return []*Endpoint{loaded("a", 0, 11), loaded("b", 50, 10)} }, want: []int{1}},
		{name: "never the busiest", endpoints: func() []*Endpoint { return []*Endpoint{loaded("a", 1, 0), loaded("b", 1, 0), loaded("c", 2, 0)} }, want: []int{0, 1}},
		{name: "not one that fails fast", endpoints: func() []*Endpoint { return []*Endpoint{penalized(loaded("a", 0, 0), 5), loaded("b", 3, 0)} }, want: []int{1}},
		{name: "one that fails rather than one that is drowned", endpoints: func() []*Endpoint { return []*Endpoint{penalized(loaded("a", 0, 0), 5), loaded("b", 20, 0)} }, want: []int{0}},
		{name: "all fail", endpoints: func() []*Endpoint {
			return []*Endpoint{penalized(loaded("a", 0, 0), 99), penalized(loaded("b", 0, 0), 99)}
		}, want: []int{0, 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // stops the clock
				endpoints, taken := test.endpoints(), map[int]int{}
				for range 1000 {
					taken[TwoChoices{}.Pick(Request{Kind: test.kind}, endpoints)]++
				}
				assert.Len(t, taken, len(test.want), "taken are %v, want only %v", taken, test.want)
				for _, want := range test.want {
					if taken[want] == 0 {
						t.Errorf("taken are %v, want %v", taken, test.want)
					}
				}
			})
		})
	}
}

func TestTwoChoicesAreFair(t *testing.T) {
	const endpoints, inFlight, requests = 3, 64, 30000
	var all []*Endpoint
	for i := range endpoints {
		all = append(all, NewEndpoint(strconv.Itoa(i)))
	}
	taken := make([]int, endpoints)
	var running []int
	for n := range requests {
		i := TwoChoices{}.Pick(Request{}, all)
		all[i].Begin(Short)
		taken[i]++
		running = append(running, i)
		if len(running) > inFlight {
			// Requests end in any order.
			done := (n * 7919) % len(running)
			all[running[done]].End(Short)
			running[done] = running[len(running)-1]
			running = running[:len(running)-1]
		}
	}
	for i, n := range taken {
		if share := float64(n) / requests * endpoints; math.Abs(share-1) > 0.15 {
			t.Errorf("endpoint %d has %.2f of its fair part", i, share)
		}
	}
}

func endpoints(names ...string) []*Endpoint {
	var all []*Endpoint
	for _, name := range names {
		all = append(all, NewEndpoint(name))
	}
	return all
}

func keys(n int) []uint64 {
	var all []uint64
	for i := range n {
		all = append(all, Key(fmt.Sprintf("group%d.example.com", i), "things"))
	}
	return all
}

func TestRendezvousDividesKeysAndMovesFew(t *testing.T) {
	const n = 300
	three := endpoints("10.0.0.1:6445", "10.0.0.2:6445", "10.0.0.3:6445")
	owners := map[uint64]int{}
	count := make([]int, 3)
	for _, key := range keys(n) {
		i := Rendezvous{}.Pick(Request{Key: key}, three)
		owners[key] = i
		count[i]++
	}
	for i, c := range count {
		if c < n/3-n/10 || c > n/3+n/10 {
			t.Errorf("endpoint %d has %d of %d keys", i, c, n)
		}
	}
	t.Run("an endpoint that leaves moves only its own", func(t *testing.T) {
		for key, before := range owners {
			now := Rendezvous{}.Pick(Request{Key: key}, three[:2])
			if before != 2 && now != before {
				t.Errorf("a key moved from %d to %d", before, now)
			}
		}
	})
	t.Run("one that comes takes its part from all", func(t *testing.T) {
		four := append(endpoints("10.0.0.4:6445"), three...)
		moved := 0
		for key, before := range owners {
			switch now := (Rendezvous{}).Pick(Request{Key: key}, four); now {
			case before + 1:
			case 0:
				moved++
			default:
				t.Errorf("a key moved from %d to %d", before+1, now)
			}
		}
		if moved < n/4-n/10 || moved > n/4+n/10 {
			t.Errorf("%d of %d keys moved", moved, n)
		}
	})
	t.Run("every process sees it alike", func(t *testing.T) {
		again := endpoints("10.0.0.1:6445", "10.0.0.2:6445", "10.0.0.3:6445")
		for key, before := range owners {
			if now := (Rendezvous{}).Pick(Request{Key: key}, again); now != before {
				t.Errorf("%d and %d", before, now)
			}
		}
	})
}

func TestRendezvousIsBounded(t *testing.T) {
	key := Key("example.com", "things")
	first := Rendezvous{}.Pick(Request{Key: key}, endpoints("a", "b", "c"))
	tests := []struct {
		name string
		kind Kind
		// load is the load of the endpoint that the key prefers, and others that of each other one.
		load, others int
		penalty      int
		want         bool
	}{
		{name: "idle", want: true},
		{name: "a few requests", load: 15, want: true},
		{name: "more than its part", load: 16, want: false},
		{name: "no more than the others", load: 40, others: 40, want: true},
		{name: "a quarter more than the others", load: 46, others: 36, want: true},
		{name: "more than a quarter more", load: 60, others: 36, want: false},
		{name: "a few watches", kind: Watch, load: 60, want: true},
		{name: "most watches", kind: Watch, load: 100, others: 10, want: false},
		{name: "it refused once", load: 3, penalty: 1, want: true},
		{name: "it refuses most", load: 3, penalty: 8, want: false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // stops the clock
				all := endpoints("a", "b", "c")
				for i, e := range all {
					n := test.others
					if i == first {
						n = test.load
						penalized(e, test.penalty)
					}
					for range n {
						e.Begin(test.kind)
					}
				}
				got := Rendezvous{}.Pick(Request{Kind: test.kind, Key: key}, all)
				assert.Equal(t, test.want, got == first, "it goes to %d, and prefers %d", got, first)
			})
		})
	}
}

func TestRendezvousSpreadsWhatHasNoKey(t *testing.T) {
	all := endpoints("a", "b", "c")
	taken := map[int]bool{}
	for range 1000 {
		taken[Rendezvous{}.Pick(Request{}, all)] = true
	}
	assert.Len(t, taken, 3, "taken")
}

func TestPenaltiesFade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p penalty
		if got := p.now(); got != 0 {
			t.Errorf("it begins as %v", got)
		}
		for range 4 {
			p.add()
		}
		for _, want := range []float64{4, 2, 1, 0.5} {
			if got := p.now(); math.Abs(got-want) > 1e-9 {
				t.Errorf("it is %v, want %v", got, want)
			}
			time.Sleep(penaltyHalfLife)
		}
		time.Sleep(10 * penaltyHalfLife)
		if got := p.now(); got != 0 || p.some.Load() {
			t.Errorf("%v is left", got)
		}
		for range 100 {
			p.add()
		}
		if got := p.now(); got != maxPenalty {
			t.Errorf("at most it is %v", got)
		}
	})
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{3, 50} {
		var all []*Endpoint
		for i := range n {
			all = append(all, loaded(strconv.Itoa(i), i%7, i%13))
		}
		for name, policy := range map[string]Policy{"TwoChoices": TwoChoices{}, "Rendezvous": Rendezvous{}} {
			b.Run(fmt.Sprintf("%s/endpoints=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					policy.Pick(Request{Key: Key("example.com", "things")}, all)
				}
			})
		}
	}
}
