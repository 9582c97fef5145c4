// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"maps"
	"slices"
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
		signal(e.doubted)
	}
}
