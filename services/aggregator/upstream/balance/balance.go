// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package balance chooses the replica for a request. It knows replicas only by their load. The caller decides which of them can take
// requests at all.
//
//   - TwoChoices compares two random replicas and takes the one with less load. Every replica gets a fair share of all requests.
//   - Rendezvous takes the same replica for the same key, unless that replica has too much load. When a replica comes or goes, only its
//     share of the keys moves.
package balance

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Kind is the kind of load that a request is. Policies count the kinds apart, because a thousand watches cost nothing until something
// happens.
type Kind int

const (
	// Short is a request that ends by itself.
	Short Kind = iota
	// Watch is a request that lasts until one end closes it, such as a watch, a log or a tunnel.
	Watch

	kinds
)

// String returns the name of the kind in metrics.
func (k Kind) String() string {
	if k == Watch {
		return "watch"
	}
	return "short"
}

// Request is what a policy knows about a request.
type Request struct {
	Kind Kind
	// Key identifies the subject of the request; see the function Key. Zero stands for none.
	Key uint64
}

// Key returns the key of a subject with this name. The key is the same in every process.
func Key(parts ...string) uint64 {
	key := uint64(len(parts))
	for _, part := range parts {
		key = mix(key ^ xxhash.Sum64String(part))
	}
	return key
}

// mix lets every bit of x affect all bits of the result (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}

// Policy chooses an endpoint.
type Policy interface {
	// Pick returns the index of the endpoint for the request. endpoints is never empty.
	Pick(req Request, endpoints []*Endpoint) int
}

// Endpoint is what a policy knows about a replica. It is safe for concurrent use.
type Endpoint struct {
	// seed stands for the name in choices by key.
	seed     uint64
	inFlight [kinds]atomic.Int64
	penalty  penalty
}

// NewEndpoint returns an endpoint without load. The name decides which keys the endpoint gets, in every process that uses the same name.
func NewEndpoint(name string) *Endpoint {
	return &Endpoint{seed: xxhash.Sum64String(name)}
}

// Begin counts a request as in flight until End.
func (e *Endpoint) Begin(kind Kind) { e.inFlight[kind].Add(1) }

// End ends a request that Begin counted.
func (e *Endpoint) End(kind Kind) { e.inFlight[kind].Add(-1) }

// InFlight returns the number of requests in flight.
func (e *Endpoint) InFlight(kind Kind) int64 { return e.inFlight[kind].Load() }

// Penalize makes the endpoint look busier for a moment, because it rejected or failed a request.
func (e *Endpoint) Penalize() { e.penalty.add() }

// load is the load with one more request of this kind. Adding one makes a penalty count for an idle endpoint too. Otherwise an endpoint
// that fails fast would look idle.
func (e *Endpoint) load(kind Kind) float64 {
	return float64(e.InFlight(kind)+1) * (1 + e.penalty.now())
}
