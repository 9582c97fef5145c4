// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// An address may fail to sign in maxFailures times at once, and then once every failurePause.
	maxFailures  = 10
	failurePause = 10 * time.Second
	// maxAddresses bounds the memory of failures.
	maxAddresses = 4096
)

// attempts remembers from where attempts to sign in have failed.
type attempts struct {
	mu sync.Mutex
	by map[netip.Prefix]*rate.Limiter
}

// networkOf returns the network of a client: a client with IPv6 often has all addresses of a /64. Clients behind a proxy have its address.
func networkOf(remote string) netip.Prefix {
	address, _ := netip.ParseAddrPort(remote)
	ip := address.Addr().Unmap()
	network, _ := ip.Prefix(min(ip.BitLen(), 64))
	return network
}

// allowed returns whether a client may try again.
func (a *attempts) allowed(client netip.Prefix) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit := a.by[client]
	return limit == nil || limit.Tokens() >= 1
}

// failed counts a failure.
func (a *attempts) failed(client netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by[client] == nil {
		if a.by == nil || len(a.by) >= maxAddresses {
			a.by = map[netip.Prefix]*rate.Limiter{}
		}
		a.by[client] = rate.NewLimiter(rate.Every(failurePause), maxFailures)
	}
	a.by[client].Allow()
}
