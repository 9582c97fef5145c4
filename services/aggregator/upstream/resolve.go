// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

const (
	// resolveInterval is how often names of servers are looked up.
	resolveInterval = 5 * time.Second
	resolveTimeout  = 5 * time.Second
)

func lookup(ctx context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ctx, host)
}

// resolve looks up the names of servers until the context ends. Every address is a replica, as those
// of a headless Service are. A name that cannot be looked up stands for what it stood for before.
func (b *Backend) resolve(ctx context.Context) {
	ticker := time.NewTicker(resolveInterval)
	defer ticker.Stop()
	for {
		b.mu.Lock()
		names := b.servers.names
		b.mu.Unlock()
		for _, name := range names {
			addresses, err := b.resolveName(ctx, name)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				klog.ErrorS(err, "Looking up the replicas of a backend", "backend", b.name, "name", name)
			default:
				b.setResolved(name, addresses)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-b.resolveNow:
		case <-ticker.C:
		}
	}
}

// resolveName returns the addresses of a name, host:port. That it has none is no error.
func (b *Backend) resolveName(ctx context.Context, name string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return nil, err
	}
	hosts, err := b.lookup(ctx, host)
	var failed *net.DNSError
	if err != nil && (!errors.As(err, &failed) || !failed.IsNotFound) {
		return nil, err
	}
	addresses := make([]string, 0, len(hosts))
	for _, host := range hosts {
		addresses = append(addresses, net.JoinHostPort(host, port))
	}
	slices.Sort(addresses)
	return addresses, nil
}
