// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Subscribe calls the function whenever what is known of a replica changes. The function must not block.
func (b *Backend) Subscribe(notify func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subscribers = append(b.subscribers, notify)
}

func (b *Backend) notifyIf(changed bool) {
	if !changed {
		return
	}
	b.mu.Lock()
	subscribers := slices.Clone(b.subscribers)
	b.mu.Unlock()
	for _, notify := range subscribers {
		notify()
	}
}

// Ready reports whether at least one replica is ready, and if none is, why not, replica by replica.
// It goes by the probes alone: that a request did not get through is a reason to probe.
func (b *Backend) Ready() (bool, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.endpoints) == 0 {
		return false, "no replica is known"
	}
	var reasons []string
	for _, address := range slices.Sorted(maps.Keys(b.endpoints)) {
		switch h := b.endpoints[address].health; h.condition {
		case ready:
			return true, ""
		case unprobed:
			reasons = append(reasons, address+": not reached yet")
		default:
			reasons = append(reasons, address+": "+h.message)
		}
	}
	return false, strings.Join(reasons, "; ")
}

// ReadyOnce returns nil when a replica was ever found ready, and otherwise why none is.
func (b *Backend) ReadyOnce() error {
	if b.wasReady.Load() {
		return nil
	}
	_, why := b.Ready()
	return fmt.Errorf("%s was not ready yet: %s", b.name, why)
}
