// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Subscribe makes the backend call notify when the state of a replica changes. notify must not block.
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

// Replica is the state of a replica.
type Replica struct {
	// Address is host:port.
	Address string
	// Probed is true once a probe has finished. Ready is true if the last probe found the replica ready, or busy after it was ready.
	Probed, Ready bool
	// State is the result of the last probe, in the words of logs.
	State string
	// Message says why the replica is not ready.
	Message string
}

// Replicas returns the state of each replica, sorted by address. Only probes count. A request that does not get through causes a probe.
func (b *Backend) Replicas() []Replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	replicas := make([]Replica, 0, len(b.endpoints))
	for _, address := range slices.Sorted(maps.Keys(b.endpoints)) {
		h := b.endpoints[address].health
		replicas = append(replicas, Replica{
			Address: address, Probed: h.condition != unprobed, Ready: h.isReady(),
			State: h.condition.String(), Message: h.message,
		})
	}
	return replicas
}

// Ready reports whether at least one replica is ready. If none is, it returns the reasons, replica by replica.
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

// ReadyOnce returns nil once a probe has found any replica ready. Until then the error says why none is.
func (b *Backend) ReadyOnce() error {
	if b.wasReady.Load() {
		return nil
	}
	_, why := b.Ready()
	return fmt.Errorf("%s was not ready yet: %s", b.name, why)
}
