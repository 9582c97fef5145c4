// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package balance

import "math"

// imbalance is how much more than its fair part an endpoint may have to do before requests go to
// the next one in the order of their key ("consistent hashing with bounded loads", Mirrokni,
// Thorup, Zadimoghaddam 2016).
const imbalance = 1.25

// freely is how much every endpoint may have to do whatever the others have: with little to do
// altogether, a fair part would be less than a request, and every second request would move.
var freely = [kinds]float64{Short: 16, Watch: 64}

// Rendezvous takes the endpoint that comes first in an order of its own for each key (highest
// random weight), and of those that have not too much to do. Requests without a key go by TwoChoices.
type Rendezvous struct{ unkeyed TwoChoices }

// Pick implements Policy.
func (r Rendezvous) Pick(req Request, endpoints []*Endpoint) int {
	if req.Key == 0 {
		return r.unkeyed.Pick(req, endpoints)
	}
	total := int64(1)
	for _, e := range endpoints {
		total += e.InFlight(req.Kind)
	}
	bound := max(freely[req.Kind], math.Ceil(imbalance*float64(total)/float64(len(endpoints))))

	first, within := -1, -1
	var firstWeight, withinWeight uint64
	for i, e := range endpoints {
		weight := mix(req.Key ^ e.seed)
		if first < 0 || weight > firstWeight {
			first, firstWeight = i, weight
		}
		if (within < 0 || weight > withinWeight) && e.load(req.Kind) <= bound {
			within, withinWeight = i, weight
		}
	}
	if within >= 0 {
		return within
	}
	return first
}
