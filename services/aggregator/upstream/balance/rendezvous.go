// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package balance

import "math"

// imbalance limits the load of an endpoint, as a multiple of its fair share. Above it, requests go to the next endpoint in the order of
// their key ("consistent hashing with bounded loads", Mirrokni, Thorup, Zadimoghaddam 2016).
const imbalance = 1.25

// freely is the load that every endpoint may have, whatever the others have. With little load in all, a fair share would be less than one
// request, and every second request would move.
var freely = [kinds]float64{Short: 16, Watch: 64}

// Rendezvous orders the endpoints anew for each key (highest random weight). It takes the first one whose load is not too high. TwoChoices
// picks for requests without a key.
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
