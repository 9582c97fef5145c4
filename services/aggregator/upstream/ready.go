// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

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

// Replica is what is known of one.
type Replica struct {
	// Address is host:port.
	Address string
	// Probed is false while it was not asked yet, Ready whether it was found ready last.
	Probed, Ready bool
	// State is what was found, as logs call it.
	State string
	// Message says why it is not ready.
	Message string
}

// Replicas returns what is known of the replicas, by address. It goes by the probes alone: that a request did not get through
// is a reason to probe.
func (b *Backend) Replicas() []Replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	replicas := make([]Replica, 0, len(b.endpoints))
	for _, address := range slices.Sorted(maps.Keys(b.endpoints)) {
		h := b.endpoints[address].health
		replicas = append(replicas, Replica{
			Address: address, Probed: h.condition != unprobed, Ready: h.condition == ready,
			State: h.condition.String(), Message: h.message,
		})
	}
	return replicas
}

// Ready reports whether at least one replica is ready, and if none is, why not, replica by replica.
// It goes by Replicas.
func (b *Backend) Ready() (bool, string) {
	var reasons []string
	for _, r := range b.Replicas() {
		switch {
		case r.Ready:
			return true, ""
		case !r.Probed:
			reasons = append(reasons, r.Address+": not reached yet")
		default:
			reasons = append(reasons, r.Address+": "+r.Message)
		}
	}
	if len(reasons) == 0 {
		return false, "no replica is known"
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
