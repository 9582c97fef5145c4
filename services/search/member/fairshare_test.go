// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// demand is how many watches each of some clusters requests, of one party or each by itself.
type demand struct {
	clusters, watches int
	isParty           bool
}

// contest is one for the watches of a replica. It has no goroutines: a party that has to leave a slot does so after each step, and waits again.
type contest struct {
	*testing.T
	*slots
	given, ended []*slot
	steps        int
}

func (c *contest) ask(by any) {
	one := &slot{weight: 1}
	one.granted = func() { c.given = append(c.given, one) }
	c.add(by, one)
	c.settle()
}

// settle goes on until nothing changes any more.
func (c *contest) settle() {
	for ; len(c.given)+len(c.ended) > 0; c.steps++ {
		require.Less(c, c.steps, 100*c.all*(1+len(c.parties)), "slots go around for ever")
		assert.LessOrEqual(c, c.used, c.all)
		if len(c.ended) > 0 {
			one, by := c.ended[0], c.nameOf(c.ended[0].by)
			c.ended = c.ended[1:]
			one.leave()
			again := &slot{weight: 1}
			again.granted = func() { c.given = append(c.given, again) }
			c.add(by, again)
			continue
		}
		one := c.given[0]
		c.given = c.given[1:]
		one.park(func() { c.ended = append(c.ended, one) })
	}
	if c.waiting > 0 {
		assert.Equal(c, c.all, c.used, "slots are free, and others wait")
	}
}

func (c *contest) nameOf(of *party) any {
	for name, one := range c.parties {
		if one == of {
			return name
		}
	}
	require.Fail(c, "a party with slots is not known")
	return nil
}

// has returns how many slots each cluster has in the end.
func (c *contest) has(demands []demand) (all [][]int) {
	for i, d := range demands {
		var has []int
		for n := range d.clusters {
			one := c.parties[d.name(i, n)]
			if one == nil {
				one = &party{}
			}
			has = append(has, one.has)
		}
		all = append(all, has)
	}
	return all
}

func (d demand) name(i, n int) any {
	if d.isParty {
		return partOf{fmt.Sprint("party", i), n}
	}
	return fmt.Sprint("cluster", i, ".", n)
}

// compete has all ask for their demand, in an order.
func compete(t *testing.T, all int, demands []demand, order func(asks []any)) [][]int {
	t.Helper()
	c := &contest{T: t, slots: newSteadySlots(all)}
	var asks []any
	for i, d := range demands {
		for n := range d.clusters {
			for range d.watches {
				asks = append(asks, d.name(i, n))
			}
		}
	}
	order(asks)
	for _, by := range asks {
		c.ask(by)
	}
	return c.has(demands)
}

// divided returns what each gets of some slots if those with the least demand get it, and the others have as much.
func divided(all int, wants []int) []int {
	level := sort.Search(all+1, func(level int) bool {
		sum := 0
		for _, want := range wants {
			sum += min(want, level)
		}
		return sum > all
	}) - 1
	gets := make([]int, len(wants))
	for i, want := range wants {
		gets[i] = min(want, level)
	}
	return gets
}

// expected returns what parties, and clusters by themselves, should have at the end: first what is kept for clusters with few, and then the
// rest.
func expected(all int, demands []demand) (names []string, gets []int) {
	small, most := all/smallShare, all-all/keptShare
	var kept, wants []int
	add := func(name string, clusters, watches int) {
		names = append(names, name)
		kept = append(kept, min(most, clusters*min(watches, small)))
		wants = append(wants, clusters*watches)
	}
	for i, d := range demands {
		if d.isParty {
			add(fmt.Sprint("party", i), d.clusters, d.watches)
			continue
		}
		for n := range d.clusters {
			add(d.name(i, n).(string), 1, d.watches)
		}
	}
	gets = divided(all, kept)
	rest := all
	for i := range gets {
		rest -= gets[i]
		wants[i] -= gets[i]
	}
	for i, more := range divided(rest, wants) {
		gets[i] += more
	}
	return names, gets
}

// inOrderOf and reversed are orders in which clusters come, as are random ones.
var orders = map[string]func([]any){
	"in order": func([]any) {}, "reversed": slices.Reverse[[]any],
}

// TestWatchesAreSharedWhoeverWasFirst has random parties ask for watches in a random order.
func TestWatchesAreSharedWhoeverWasFirst(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		all := 100 + random.IntN(400)
		var demands []demand
		for range 1 + random.IntN(6) {
			demands = append(demands, demand{1 + random.IntN(30), random.IntN(1 + random.IntN(all)), random.IntN(2) > 0})
		}
		t.Run(fmt.Sprint(seed, all, demands), func(t *testing.T) {
			has := compete(t, all, demands, func(asks []any) {
				random.Shuffle(len(asks), func(i, j int) { asks[i], asks[j] = asks[j], asks[i] })
			})
			names, want := expected(all, demands)
			got := map[string]int{}
			for i, d := range demands {
				sum := 0
				for n, has := range has[i] {
					assert.LessOrEqual(t, has, d.watches)
					if sum += has; !d.isParty {
						got[d.name(i, n).(string)] = has
					}
				}
				if d.isParty {
					got[fmt.Sprint("party", i)] = sum
					assert.LessOrEqual(t, slices.Max(has[i])-slices.Min(has[i]), 1, "its clusters want as many")
				}
			}
			for i, name := range names {
				assert.InDelta(t, want[i], got[name], 1, "%s of %v", name, want)
			}
		})
	}
}

// TestClustersWithFewWatchesKeepThem has the standard number of watches, and some clusters that request as many as they may.
func TestClustersWithFewWatchesKeepThem(t *testing.T) {
	all := Standard().Watches
	const ofKubernetes, mostResources = 72, 1000
	for name, test := range map[string]struct {
		demands []demand
		least   []int
	}{
		"a fleet, and one that lies":            {[]demand{{50, ofKubernetes, true}, {1, mostResources, false}}, []int{64, 76}},
		"a fleet, and some that lie":            {[]demand{{50, ofKubernetes, true}, {4, mostResources, false}}, []int{59, 76}},
		"a fleet with one that lies":            {[]demand{{50, ofKubernetes, true}, {1, ofKubernetes, false}}, []int{ofKubernetes, ofKubernetes}},
		"many of one author, and some by hand":  {[]demand{{100, 60, true}, {10, ofKubernetes, false}}, []int{28, ofKubernetes}},
		"many of one author, and one with many": {[]demand{{100, 60, true}, {1, 600, false}}, []int{30, 500}},
		"many of two authors, and a fleet":      {[]demand{{60, 60, true}, {60, 60, true}, {10, ofKubernetes, true}}, []int{25, 25, ofKubernetes}},
		"one author with few, and some by hand": {[]demand{{10, mostResources, true}, {10, ofKubernetes, false}}, []int{300, ofKubernetes}},
		"all of one party":                      {[]demand{{20, mostResources, true}}, []int{190}},
		"all by hand":                           {[]demand{{20, mostResources, false}}, []int{190}},
	} {
		for order, in := range orders {
			t.Run(name+" "+order, func(t *testing.T) {
				has := compete(t, all, test.demands, in)
				for i, least := range test.least {
					t.Logf("%+v: %d to %d", test.demands[i], slices.Min(has[i]), slices.Max(has[i]))
					assert.GreaterOrEqual(t, slices.Min(has[i]), least, test.demands[i])
				}
			})
		}
	}
}
