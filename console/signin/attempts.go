// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tripod-k8s/tripod/console/access"
)

const (
	// maxAttempts is how many attempts of one kind to sign in are checked at once, and waitingAttempts how many wait for that.
	maxAttempts     = 8
	waitingAttempts = 32
	// A network may fail to sign in maxFailures times at once, and then once every failureInterval, before it is slow.
	maxFailures     = 30
	failureInterval = time.Second
	// The console checks slowAttempts of a slow network at once. A failure keeps its place for failurePause.
	slowAttempts = 2
	failurePause = 100 * time.Millisecond
	// maxNetworks bounds the memory of failures.
	maxNetworks = 4096
)

// attempts bounds attempts of one kind to sign in. Many users can have the address of one proxy or node. So failures of a network make its
// attempts slow, and a correct credential is still accepted.
type attempts struct {
	places *access.Places

	mu       sync.Mutex
	networks map[netip.Prefix]*failures
}

// failures are those of a network.
type failures struct {
	rate   *rate.Limiter
	places *access.Places
}

func newAttempts() *attempts {
	return &attempts{places: access.NewPlaces(maxAttempts, waitingAttempts), networks: map[netip.Prefix]*failures{}}
}

// begin returns when an attempt of a client may be checked. The caller must then say whether it has failed. It returns access.ErrBusy if
// too many attempts wait.
func (a *attempts) begin(ctx context.Context, client netip.Prefix) (end func(failed bool), err error) {
	slow := a.slow(client)
	freeSlow := func() {}
	if slow != nil {
		if freeSlow, err = slow.Take(ctx); err != nil {
			return nil, err
		}
	}
	free, err := a.places.Take(ctx)
	if err != nil {
		freeSlow()
		return nil, err
	}
	return func(failed bool) {
		free()
		if !failed {
			freeSlow()
			return
		}
		a.failed(client)
		time.AfterFunc(failurePause, freeSlow)
	}, nil
}

// slow returns the places of a network that fails too often, or nil.
func (a *attempts) slow(client netip.Prefix) *access.Places {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of := a.networks[client]; of != nil && of.rate.Tokens() < 1 {
		return of.places
	}
	return nil
}

// failed counts a failure.
func (a *attempts) failed(client netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.networks[client]
	if of == nil {
		if len(a.networks) >= maxNetworks {
			clear(a.networks)
		}
		of = &failures{rate.NewLimiter(rate.Every(failureInterval), maxFailures), access.NewPlaces(slowAttempts, waitingAttempts)}
		a.networks[client] = of
	}
	of.rate.Allow()
}
