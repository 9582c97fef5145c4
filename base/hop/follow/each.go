// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"slices"
	"sync"
)

// Each runs a function for each replica of a service, for as long as the replica exists.
type Each struct {
	run     func(ctx context.Context, address string)
	running sync.WaitGroup

	mu sync.Mutex
	// ends has the functions that end a run, by address.
	ends map[string]context.CancelFunc
}

// NewEach returns an Each. It does nothing before Set.
func NewEach(run func(ctx context.Context, address string)) *Each {
	return &Each{run: run, ends: map[string]context.CancelFunc{}}
}

// Set sets the current replicas. Each runs the function for new ones. The context of a run ends when its replica is gone, or with ctx.
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

// Wait returns when all runs have ended.
func (e *Each) Wait() { e.running.Wait() }
