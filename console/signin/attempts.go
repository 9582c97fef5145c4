// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tripod-k8s/tripod/console/access"
)

const (
	// maxAttempts is how many attempts of one kind to sign in are checked at once, of which a network has attemptsOfNetwork at most. Of a
	// network, and of networks that have an attempt to check, waitingAttempts wait for that.
	maxAttempts       = 8
	attemptsOfNetwork = 4
	waitingAttempts   = 32
	// A network may fail to sign in maxFailures times at once, and then once every failureInterval, before it is slow.
	maxFailures     = 30
	failureInterval = time.Second
	// The console checks slowAttempts of a slow network at once. A failure keeps its place for failurePause.
	slowAttempts = 2
	failurePause = 100 * time.Millisecond
	// maxNetworks bounds the memory of failures.
	maxNetworks = 4096
)

// attempts bounds attempts of one kind to sign in. A network has a share of the places, so that others sign in whatever it sends. Many
// users can have the address of one proxy or node. So failures of a network make its attempts slow, and a correct credential is still
// accepted.
type attempts struct {
	places *access.Places
	// forgiven is how fast failures of a network are forgotten.
	forgiven rate.Limit

	mu       sync.Mutex
	networks map[netip.Prefix]*network
}

// network is one that tries to sign in, or has failed.
type network struct {
	// count is that of attempts. The lock of all attempts guards it.
	count    int
	failures *rate.Limiter
	// places are those of all attempts, and slow those that an attempt needs besides while the network is slow.
	places, slow *access.Places
}

// isSlow returns whether the network fails too often.
func (n *network) isSlow() bool { return n.failures.Tokens() < 1 }

func newAttempts() *attempts {
	return &attempts{
		places: access.NewPlaces(maxAttempts, waitingAttempts), forgiven: rate.Every(failureInterval), networks: map[netip.Prefix]*network{},
	}
}

// begin returns when an attempt of a client may be checked. The caller must then say whether it has failed. It returns access.ErrBusy if
// too many attempts wait. An attempt waits for places of its network first, so the common queue has at most attemptsOfNetwork of a network.
func (a *attempts) begin(ctx context.Context, client netip.Prefix) (end func(failed bool), err error) {
	of := a.enter(client)
	defer func() {
		if err != nil {
			a.leave(client, of)
		}
	}()
	free, err := of.places.Take(ctx)
	if err != nil {
		return nil, err
	}
	freeSlow := func() {}
	if of.isSlow() { // as the attempts before it have ended
		if freeSlow, err = of.slow.Take(ctx); err != nil {
			free()
			return nil, err
		}
	}
	freeCommon, err := a.places.Take(ctx)
	if err != nil {
		freeSlow()
		free()
		return nil, err
	}
	return func(failed bool) {
		if failed {
			of.failures.Allow() // before the next attempt has the place
			time.AfterFunc(failurePause, freeSlow)
		} else {
			freeSlow()
		}
		freeCommon()
		free()
		a.leave(client, of)
	}, nil
}

// enter returns the network of a client, which has one attempt more.
func (a *attempts) enter(client netip.Prefix) *network {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.networks[client]
	if of == nil {
		if len(a.networks) >= maxNetworks {
			maps.DeleteFunc(a.networks, func(_ netip.Prefix, n *network) bool { return n.count == 0 })
		}
		of = &network{
			failures: rate.NewLimiter(a.forgiven, maxFailures), places: access.NewPlaces(attemptsOfNetwork, waitingAttempts),
			slow: access.NewPlaces(slowAttempts, attemptsOfNetwork), // which cannot be busy
		}
		a.networks[client] = of
	}
	of.count++
	return of
}

// leave ends an attempt. A network without attempts and failures is forgotten.
func (a *attempts) leave(client netip.Prefix, of *network) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of.count--; of.count == 0 && of.failures.Tokens() >= maxFailures {
		delete(a.networks, client)
	}
}
