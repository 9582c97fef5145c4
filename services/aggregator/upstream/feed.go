// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"maps"
	"slices"
	"time"
)

const (
	// messageCounts is how long a message of a feed counts. A replica sends one every 400 ms. It is no longer than the time between two
	// probes, so a replica that hangs is found as soon as if it were always probed.
	messageCounts = 500 * time.Millisecond
	// quietCounts is how much longer a message counts than until the next one that it announces, and quietMost the longest that a replica may
	// announce. Replicas without requests send one every 1.2 s. The first request makes the aggregator look as often as before.
	quietCounts = 100 * time.Millisecond
	quietMost   = 1500 * time.Millisecond
)

// Addresses returns the addresses (host:port) of all replicas, sorted.
func (b *Backend) Addresses() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.endpoints))
}

func (b *Backend) endpointAt(address string) *endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.endpoints[address]
}

// ProbeNow probes the replica at an address at once, because its state may have changed.
func (b *Backend) ProbeNow(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.endpoints[address]; e != nil {
		e.servesUntil.Store(nil)
		signal(e.doubted)
	}
}

// Spare reports whether requests and streams can do without the replica at an address, because another one serves.
func (b *Backend) Spare(address string) bool { return b.roster.Load().serves(address) }

// SetServing records whether the replica at an address serves. The follower of its feed calls it with each message. next is the time in
// which the replica sends the next one, or 0 for messageCounts.
func (b *Backend) SetServing(address string, serves bool, next time.Duration) {
	e := b.endpointAt(address)
	if e != nil {
		e.feedMessages.Add(1)
	}
	switch {
	case e == nil:
	case serves:
		counts := messageCounts
		if next > 0 {
			counts = min(next, quietMost) + quietCounts
		}
		until := time.Now().Add(counts)
		e.servesUntil.Store(&until)
		e.quiet.Store(next > 0)
	case e.servesUntil.Swap(nil) != nil:
		signal(e.doubted)
	}
}

// servingFor returns how much longer the last message counts that reported the replica as serving. It is not positive if there is none.
func (e *endpoint) servingFor() time.Duration {
	until := e.servesUntil.Load()
	if until == nil {
		return 0
	}
	return time.Until(*until)
}

// disturb ends the long rest of a replica that has had no requests for a while.
func (e *endpoint) disturb() {
	if !e.quiet.Load() || !e.quiet.CompareAndSwap(true, false) {
		return
	}
	// The last message counts no longer than one that announces nothing.
	soon := time.Now().Add(messageCounts)
	if until := e.servesUntil.Load(); until != nil && until.After(soon) {
		e.servesUntil.CompareAndSwap(until, &soon)
	}
	signal(e.disturbed)
}
