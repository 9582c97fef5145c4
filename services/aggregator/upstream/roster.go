// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"slices"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
)

// roster is an immutable list of a backend's replicas, ranked for new requests.
type roster struct {
	// tiers are not empty, best rank first. If no replica that fits is there to stay, those that are held back come first: one that is
	// about to stop refuses requests soon.
	tiers []tier
}

// tier has the replicas of one rank, sorted by address.
type tier struct {
	rank      rank
	endpoints []*endpoint
	// loads are the loads of the endpoints.
	loads []*balance.Endpoint
}

func newRoster(endpoints map[string]*endpoint) *roster {
	var byRank [ranks]tier
	for _, e := range endpoints {
		r := e.health.rank()
		byRank[r].endpoints = append(byRank[r].endpoints, e)
	}
	r := &roster{}
	for _, rank := range order(len(byRank[rankServing].endpoints)+len(byRank[rankBusy].endpoints) > 0) {
		t := byRank[rank]
		if len(t.endpoints) == 0 {
			continue
		}
		t.rank = rank
		slices.SortFunc(t.endpoints, func(a, b *endpoint) int { return cmp.Compare(a.address, b.address) })
		t.loads = loadsOf(t.endpoints)
		r.tiers = append(r.tiers, t)
	}
	return r
}

// order returns the ranks, best first. fits is true if a replica serves that is not held back, and stays.
func order(fits bool) []rank {
	var best []rank
	if !fits {
		best = append(best, rankHeldBack)
	}
	for r := range ranks {
		if fits || r != rankHeldBack {
			best = append(best, r)
		}
	}
	return best
}

func loadsOf(endpoints []*endpoint) []*balance.Endpoint {
	loads := make([]*balance.Endpoint, len(endpoints))
	for i, e := range endpoints {
		loads[i] = e.load
	}
	return loads
}

// pick returns a replica for a request: of those for which suits returns true, one of the best rank. It returns nil if there is none. It
// picks a frozen replica only if no other is left: the request waits there, until its client gives up or the replica goes on.
func (r *roster) pick(policy balance.Policy, req balance.Request, suits func(*endpoint, rank) bool) *endpoint {
	for _, t := range r.tiers {
		if suits == nil {
			return t.endpoints[policy.Pick(req, t.loads)]
		}
		var left []*endpoint
		for _, e := range t.endpoints {
			if suits(e, t.rank) {
				left = append(left, e)
			}
		}
		if len(left) > 0 {
			return left[policy.Pick(req, loadsOf(left))]
		}
	}
	return nil
}

// States returns the states of replicas in metrics, in the order in which requests prefer them. count returns how many replicas are in a
// state.
func States(count func(state string) int) []string {
	var states []string
	for _, r := range order(count(rankServing.String())+count(rankBusy.String()) > 0) {
		states = append(states, r.String())
	}
	return states
}

// serves reports whether any replica serves except for that at an address. One that is about to stop does so, too, and one that is held
// back.
func (r *roster) serves(except string) bool {
	for _, t := range r.tiers {
		serves := t.rank <= rankDraining || t.rank == rankHeldBack
		if serves && slices.ContainsFunc(t.endpoints, func(e *endpoint) bool { return e.address != except }) {
			return true
		}
	}
	return false
}
