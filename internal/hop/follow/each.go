// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"slices"
	"sync"
)

// Each runs a function for each replica of a service, for as long as the replica is there.
type Each struct {
	run     func(ctx context.Context, address string)
	running sync.WaitGroup

	mu sync.Mutex
	// ends has how to end the function, by address.
	ends map[string]context.CancelFunc
}

// NewEach returns an Each that does nothing before Set.
func NewEach(run func(ctx context.Context, address string)) *Each {
	return &Each{run: run, ends: map[string]context.CancelFunc{}}
}

// Set says which replicas are there now. The function runs for those that are new, and its context ends for those that are gone, or with ctx.
func (e *Each) Set(ctx context.Context, addresses []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for address, end := range e.ends {
		if !slices.Contains(addresses, address) {
			end()
			delete(e.ends, address)
		}
	}
	for _, address := range addresses {
		if e.ends[address] != nil {
			continue
		}
		one, end := context.WithCancel(ctx)
		e.ends[address] = end
		e.running.Go(func() { e.run(one, address) })
	}
}

// Wait returns when the function has ended for all replicas.
func (e *Each) Wait() { e.running.Wait() }
