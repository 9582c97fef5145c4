// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"maps"
	"slices"
)

// Addresses returns those of all replicas, host:port, sorted.
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

// ProbeNow says that the state of the replica at an address may have changed.
func (b *Backend) ProbeNow(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.endpoints[address]; e != nil {
		signal(e.doubted)
	}
}
