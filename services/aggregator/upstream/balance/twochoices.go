// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package balance

import "math/rand/v2"

// TwoChoices takes the better of two endpoints at random. The best of all would be the best for
// every aggregator at the same time, and then the worst.
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
