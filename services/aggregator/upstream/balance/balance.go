// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package balance chooses the replica that a request goes to. It knows replicas only by their load:
// which of them can take requests at all is for the caller to say.
//
//   - TwoChoices looks at two replicas at random and takes the one with less to do. Every replica
//     does a fair part of everything.
//   - Rendezvous takes the same replica for the same key, unless that one has too much to do. Every
//     replica does all of its part of the keys, and when a replica comes or goes, only that part moves.
package balance

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Kind is what a request means for the replica that serves it. The kinds are counted apart: a
// thousand watches are nothing to do, until something happens.
type Kind int

const (
	// Short is a request that ends by itself.
	Short Kind = iota
	// Watch is a request that goes on until one of its ends has enough: also logs and tunnels.
	Watch

	kinds
)

// String returns the kind as metrics call it.
func (k Kind) String() string {
	if k == Watch {
		return "watch"
	}
	return "short"
}

// Request is what a policy knows about a request.
type Request struct {
	Kind Kind
	// Key is what the request is about, made by Key. Zero: nothing in particular.
	Key uint64
}

// Key returns the key of what is named by the parts. It is the same in every process.
func Key(parts ...string) uint64 {
	key := uint64(len(parts))
	for _, part := range parts {
		key = mix(key ^ xxhash.Sum64String(part))
	}
	return key
}

// mix spreads every bit of x over all of the result (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}

// Policy chooses.
type Policy interface {
	// Pick returns the index of the endpoint that the request should go to. There is at least one.
	Pick(req Request, endpoints []*Endpoint) int
}

// Endpoint is what a policy knows about a replica. It is safe for concurrent use.
type Endpoint struct {
	// seed stands for the name in keyed choices.
	seed     uint64
	inFlight [kinds]atomic.Int64
	penalty  penalty
}

// NewEndpoint returns an endpoint without load. The name decides which keys it gets: whoever calls
// it by that name sends it the same ones.
func NewEndpoint(name string) *Endpoint {
	return &Endpoint{seed: xxhash.Sum64String(name)}
}

// Begin counts a request until End is called.
func (e *Endpoint) Begin(kind Kind) { e.inFlight[kind].Add(1) }

// End is called when a request that Begin counted is over.
func (e *Endpoint) End(kind Kind) { e.inFlight[kind].Add(-1) }

// InFlight returns how many requests have begun and not ended.
func (e *Endpoint) InFlight(kind Kind) int64 { return e.inFlight[kind].Load() }

// Penalize makes the endpoint look busier for a moment: it has refused or failed a request.
func (e *Endpoint) Penalize() { e.penalty.add() }

// load is what one more request of that kind would wait for. The one more is counted, so that a
// penalty weighs with an endpoint that has nothing to do, too: failing is fast.
func (e *Endpoint) load(kind Kind) float64 {
	return float64(e.InFlight(kind)+1) * (1 + e.penalty.now())
}
