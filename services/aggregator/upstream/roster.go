// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"slices"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
)

// roster is the replicas of a backend at one time, by how good they are for a new request. It does
// not change: another one takes its place.
type roster struct {
	// tiers are the replicas of one rank each, best first. None is empty.
	tiers []tier
}

// tier is replicas of one rank, in the order of their addresses.
type tier struct {
	rank      rank
	endpoints []*endpoint
	// loads are those of the endpoints.
	loads []*balance.Endpoint
}

func newRoster(endpoints map[string]*endpoint) *roster {
	var byRank [ranks]tier
	for _, e := range endpoints {
		r := e.health.rank()
		byRank[r].endpoints = append(byRank[r].endpoints, e)
	}
	r := &roster{}
	for i := range byRank {
		t := byRank[i]
		if len(t.endpoints) == 0 {
			continue
		}
		t.rank = rank(i)
		slices.SortFunc(t.endpoints, func(a, b *endpoint) int { return cmp.Compare(a.address, b.address) })
		t.loads = loadsOf(t.endpoints)
		r.tiers = append(r.tiers, t)
	}
	return r
}

func loadsOf(endpoints []*endpoint) []*balance.Endpoint {
	loads := make([]*balance.Endpoint, len(endpoints))
	for i, e := range endpoints {
		loads[i] = e.load
	}
	return loads
}

// pick returns the replica for a request, or nil if there is none: of those that suit, and of the
// best rank that one of them has. A frozen one would only keep the request waiting.
func (r *roster) pick(policy balance.Policy, req balance.Request, suits func(*endpoint, rank) bool) *endpoint {
	for _, t := range r.tiers {
		if t.rank == rankFrozen {
			break
		}
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
