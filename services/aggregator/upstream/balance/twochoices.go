// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package balance

import "math/rand/v2"

// TwoChoices compares two random endpoints and takes the one with less load. If every aggregator took the best of all endpoints, that one
// would soon be the worst.
type TwoChoices struct{}

// Pick implements Policy.
func (TwoChoices) Pick(req Request, endpoints []*Endpoint) int {
	n := len(endpoints)
	if n == 1 {
		return 0
	}
	first := rand.IntN(n)
	second := rand.IntN(n - 1)
	if second >= first {
		second++
	}
	if endpoints[second].load(req.Kind) < endpoints[first].load(req.Kind) {
		return second
	}
	return first
}
