// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
)

const (
	// lookUpInterval is the time between two lookups of a name.
	lookUpInterval = 5 * time.Second
	lookUpTimeout  = 5 * time.Second
	// maxFound limits the addresses of a name. The service probes each of them.
	maxFound = 256
	// maxKept limits how many replicas of a name stay after DNS stops returning them, and maxKeep for how long.
	maxKept = 32
	maxKeep = time.Hour
)

// Config describes the service.
type Config struct {
	// Service is the name of the service in the log.
	Service string
	// Ready reports whether the replica at an address (host:port) passed its last probe, and so has a certificate of the service. It must not
	// call the Set.
	Ready func(address string) bool
	// Changed receives the addresses of all replicas when they change. It must not call the Set.
	Changed func(addresses []string)
}

// Set has the addresses of the replicas of a service. They come from single addresses, and from DNS names whose addresses are replicas,
// such as that of a headless Service.
type Set struct {
	config Config
	lookUp func(ctx context.Context, host string) ([]string, error)
	now    chan struct{}

	mu       sync.Mutex
	servers  []addresses.Location
	names    map[addresses.Location]*name
	reported []string
}

// name has the addresses of a DNS name.
type name struct {
	found []string
	// kept are ready replicas that DNS no longer returns, with the time since when.
	kept map[string]time.Time
}

// New returns a set without replicas.
func New(config Config) *Set {
	return &Set{config: config, lookUp: net.DefaultResolver.LookupHost, now: make(chan struct{}, 1), names: map[addresses.Location]*name{}}
}

// Put replaces the addresses. A name has no addresses before Run has looked it up. Until then, the replicas that the name replaces stay.
func (s *Set) Put(servers []addresses.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = servers
	before, replaced := s.names, s.without(servers)
	s.names = map[addresses.Location]*name{}
	for _, server := range servers {
		if !server.IsName {
			continue
		}
		if s.names[server] = before[server]; s.names[server] == nil {
			s.names[server], replaced = &name{kept: replaced}, nil
		}
	}
	s.notify()
	s.LookUpNow()
}

// without returns the known replicas that are not at these servers, as kept ones.
func (s *Set) without(servers []addresses.Location) map[string]time.Time {
	others := map[string]time.Time{}
	for _, address := range s.reported {
		others[address] = time.Now()
	}
	for _, server := range servers {
		delete(others, server.Address())
		if n := s.names[server]; n != nil {
			for _, address := range n.addresses() {
				delete(others, address)
			}
		}
	}
	return others
}

// LookUpNow makes Run look up all names at once. It does not wait for the result.
func (s *Set) LookUpNow() {
	select {
	case s.now <- struct{}{}:
	default:
	}
}

// Run looks up names until the context ends.
func (s *Set) Run(ctx context.Context) {
	ticker := time.NewTicker(lookUpInterval)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		servers := s.servers
		s.mu.Unlock()
		for _, server := range servers {
			if server.IsName {
				s.find(ctx, server)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.now:
		case <-ticker.C:
		}
	}
}

// find looks up a name. If that fails, the name keeps its addresses.
func (s *Set) find(ctx context.Context, server addresses.Location) {
	looking, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	hosts, err := s.lookUp(looking, server.Host)
	if ctx.Err() != nil {
		return
	}
	var missing *net.DNSError
	if errors.As(err, &missing) && missing.IsNotFound {
		hosts, err = nil, nil // the name has no addresses
	}
	if err != nil {
		klog.ErrorS(err, "Looking up the replicas of a service", "service", s.config.Service, "name", server.Address())
	}
	slices.Sort(hosts)
	if len(hosts) > maxFound {
		klog.ErrorS(nil, "A name has too many addresses, using the first", "service", s.config.Service, "name", server.Address(), "found",
			len(hosts), "used", maxFound)
		hosts = hosts[:maxFound]
	}
	found := make([]string, 0, len(hosts))
	for _, host := range hosts {
		found = append(found, net.JoinHostPort(host, server.Port))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.names[server]
	if n == nil {
		return // the name was removed meanwhile
	}
	if err != nil {
		found = n.found
	}
	if n.take(found, s.config.Ready) {
		klog.InfoS("A name leads to no replica that is ready, keeping those that are", "service", s.config.Service, "name", server.Address(),
			"found", found, "kept", n.addresses()[len(found):])
	}
	s.notify()
}

// take stores the result of a lookup. While no replica among the new addresses is ready, the previous ready ones stay. It reports the first
// time that this happens.
func (n *name) take(found []string, ready func(string) bool) (keeps bool) {
	now, before := time.Now(), n.addresses()
	kept := map[string]time.Time{}
	if !slices.ContainsFunc(found, ready) {
		for _, address := range before {
			since, ok := n.kept[address]
			if !ok {
				since = now
			}
			if !slices.Contains(found, address) && len(kept) < maxKept && now.Sub(since) < maxKeep && ready(address) {
				kept[address] = since
			}
		}
	}
	keeps = len(kept) > 0 && len(n.kept) == 0
	n.found, n.kept = found, kept
	return keeps
}

// addresses returns the addresses from DNS first, and then the kept ones.
func (n *name) addresses() []string {
	kept := make([]string, 0, len(n.kept))
	for address := range n.kept {
		kept = append(kept, address)
	}
	slices.Sort(kept)
	return slices.Concat(n.found, kept)
}

// notify reports the addresses of all replicas, if they have changed.
func (s *Set) notify() {
	now := []string{}
	for _, server := range s.servers {
		if server.IsName {
			now = append(now, s.names[server].addresses()...)
		} else {
			now = append(now, server.Address())
		}
	}
	if s.reported == nil || !slices.Equal(now, s.reported) {
		s.reported = now
		s.config.Changed(now)
	}
}
