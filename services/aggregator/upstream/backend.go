// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upstream sends requests to the replicas of backends and of aggregated API servers. It finds the replicas, checks their health,
// and chooses one for each request. If a request fails and a retry is safe, it sends the request to another replica.
//
// It retries a request that a replica may have processed only if the request is a read (call.go). Health ranks the replicas (health.go),
// and package balance chooses among those of the best rank. Package connections derives from an error whether a replica can have processed
// the request.
package upstream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/replicas"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// Names of the backends that every aggregator has. The spec.service of an APIService has the name of a backend, and Namespace.
const (
	Core       = string(routing.Core)
	Extensions = string(routing.Extensions)

	// Namespace is the namespace in the spec.service of APIServices.
	Namespace = trust.Namespace
)

// Backend is a server with any number of replicas. It is an http.RoundTripper. A request for it needs only a path.
type Backend struct {
	name   string
	policy balance.Policy
	trust  *connections.Trust
	budget *budget
	// aggregated is true for an aggregated API server.
	aggregated bool
	// set finds the replicas. It is nil for an aggregated API server.
	set    *replicas.Set
	checks checks
	// dial makes connections. If it is nil, net.Dialer does.
	dial connections.Dial
	// holds is true if the backend holds short answers back until they are complete (see hold).
	holds bool
	// sharesWatches is true if watches at a replica share events (see sharedWatches).
	sharesWatches bool
	// firstReplica may be nil (see Config).
	firstReplica func(schema.GroupResource) (address string, ok bool)

	// partlyServed has the addresses of the replicas that have a group-version, if others lack it. It is nil if they do not differ.
	partlyServed atomic.Pointer[map[schema.GroupVersion][]string]
	// roster has the replicas from which requests choose.
	roster atomic.Pointer[roster]
	// wasReady is true once a probe has found any replica ready.
	wasReady atomic.Bool
	// holding counts the answers that are held back (see hold).
	holding atomic.Int64

	mu        sync.Mutex
	endpoints map[string]*endpoint
	// added are endpoints that Run has not started to probe.
	added       []*endpoint
	subscribers []func()
	// probing counts the endpoints that Run probes, and removed ones that finish requests.
	probing int
	// changed is signalled after endpoints were added or removed.
	changed chan struct{}
}

// Config describes a backend.
type Config struct {
	Name string
	// Servers are the addresses of its replicas, in the form that SetServers takes.
	Servers []string
	// Balance is how requests are spread over them.
	Balance addresses.Balance
	// Trust is the identity of the aggregator.
	Trust trust.Options
	// FirstReplica returns the replica that had a new custom resource first. It may be nil.
	FirstReplica func(schema.GroupResource) (address string, ok bool)
	// SharedWatches makes watches at a replica share events.
	SharedWatches bool
}

// New returns a backend with replicas at these servers (see SetServers).
func New(c Config) (*Backend, error) {
	trust, err := connections.NewTrust(trust.ServerName(c.Name),
		connections.Files{CA: c.Trust.CAFile, Cert: c.Trust.CertFile, Key: c.Trust.KeyFile})
	if err != nil {
		return nil, fmt.Errorf("connections to %s: %w", c.Name, err)
	}
	b := empty(c.Name, trust)
	if c.Balance == addresses.Rendezvous {
		b.policy = balance.Rendezvous{}
	}
	b.firstReplica = c.FirstReplica
	b.sharesWatches = c.SharedWatches
	b.set = replicas.New(replicas.Config{Service: c.Name, Ready: b.isReady, Changed: b.SetAddresses})
	if err := b.SetServers(c.Servers); err != nil {
		return nil, err
	}
	return b, nil
}

// empty returns a backend without replicas.
func empty(name string, trust *connections.Trust) *Backend {
	registerMetrics()
	b := &Backend{
		name:      name,
		policy:    balance.TwoChoices{},
		trust:     trust,
		budget:    newBudget(),
		checks:    ownChecks(),
		holds:     true,
		endpoints: map[string]*endpoint{},
		changed:   make(chan struct{}, 1),
	}
	b.roster.Store(&roster{})
	return b
}

// Name returns the name of the backend.
func (b *Backend) Name() string { return b.name }

// SetServers sets where the replicas are, but not those of an aggregated API server. Each server is the URL of a replica,
// https://host:port, or a DNS name whose addresses are replicas, dns:///host:port.
func (b *Backend) SetServers(list []string) error {
	var servers []addresses.Location
	for _, server := range list {
		at, err := addresses.OfServer(server)
		if err != nil {
			return fmt.Errorf("replicas of %s: %w", b.name, err)
		}
		servers = append(servers, at)
	}
	b.set.Put(servers)
	return nil
}

// SetAddresses sets the addresses (host:port) of the replicas. A removed replica finishes its requests.
func (b *Backend) SetAddresses(addresses []string) {
	b.mu.Lock()
	changed := b.updateEndpoints(addresses)
	b.mu.Unlock()
	b.notifyIf(changed)
}

// isReady reports whether the last probe found the replica at an address ready.
func (b *Backend) isReady(address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.endpoints[address]
	return e != nil && e.health.isReady()
}

// updateEndpoints adds and removes endpoints until they have these addresses.
func (b *Backend) updateEndpoints(addresses []string) (changed bool) {
	for address, e := range b.endpoints {
		if !slices.Contains(addresses, address) {
			delete(b.endpoints, address)
			e.metrics.setState("") // it has requests to finish, and no place among the replicas
			close(e.removed)
			changed = true
			klog.InfoS("Replica removed", "backend", b.name, "replica", address)
		}
	}
	for _, address := range addresses {
		if b.endpoints[address] == nil {
			e := b.newEndpoint(address)
			b.endpoints[address] = e
			b.added = append(b.added, e)
			changed = true
			klog.InfoS("Replica added", "backend", b.name, "replica", address)
		}
	}
	if changed {
		b.updateRoster()
		signal(b.changed)
	}
	return changed
}

// updateRoster makes the current state of the endpoints visible to requests.
func (b *Backend) updateRoster() {
	r := newRoster(b.endpoints)
	b.roster.Store(r)
	b.settle()
	var counts [ranks]int
	for _, t := range r.tiers {
		counts[t.rank] = len(t.endpoints)
		for _, e := range t.endpoints {
			e.metrics.setState(t.rank.String())
		}
	}
	for i, n := range counts {
		endpointsByState.WithLabelValues(b.name, rank(i).String()).Set(float64(n))
	}
}

// SetDraining records whether the replica at an address (host:port) is about to stop. A draining replica gets no new requests while another
// replica is available. Its requests in flight continue.
func (b *Backend) SetDraining(address string, draining bool) {
	b.mu.Lock()
	e := b.endpoints[address]
	b.mu.Unlock()
	if e != nil {
		b.update(e, rankDraining.String(), func(h *health) { h.draining = draining })
	}
}

// SetHeldBack records whether the replica at an address (host:port) shall get no requests while another one serves.
func (b *Backend) SetHeldBack(address string, held bool) {
	if e := b.endpointAt(address); e != nil {
		b.update(e, rankHeldBack.String(), func(h *health) { h.heldBack = held })
	}
}

// SetPartlyServed names the group-versions that some replicas lack, as while a rollout adds one, with the addresses of those that have it.
// Requests for such a group-version go to these replicas only, because 404 of another one would say that it does not exist. KEP-4020 has
// kube-apiserver pass them on to another one, and answer 503 if it cannot.
func (b *Backend) SetPartlyServed(having map[schema.GroupVersion][]string) {
	if len(having) == 0 {
		b.partlyServed.Store(nil)
		return
	}
	b.partlyServed.Store(&having)
}

// isHeldBack reports whether the replica at an address is held back, and others get the requests.
func (b *Backend) isHeldBack(address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.endpoints[address]
	return e != nil && e.health.heldBack && !slices.Contains(b.roster.Load().tiers[0].endpoints, e)
}

// update changes the health of a replica. It reports whether the change ejected the replica; the metrics count the reason.
func (b *Backend) update(e *endpoint, reason string, change func(*health)) (ejected bool) {
	b.mu.Lock()
	before := e.health
	change(&e.health)
	now := e.health
	was, is := before.rank(), now.rank()
	if was != is {
		b.updateRoster()
	}
	b.mu.Unlock()

	if now.condition == ready {
		b.wasReady.Store(true)
	}
	if was != is && (was == rankServing || is == rankServing) {
		klog.InfoS("Replica changed", "backend", b.name, "replica", e.address, "state", is, "reason", reason, "message", now.message)
	}
	b.notifyIf(now.condition != before.condition || now.message != before.message || now.draining != before.draining)

	ejected = was == rankServing && slices.Contains(ejectionReasons, reason) && is != rankServing
	if reason == silent.String() && !b.Spare(e.address) {
		ejected = false // it still gets requests
	}
	if ejected {
		e.metrics.ejected(reason)
	}
	return ejected
}

// Run probes the replicas until the context ends, and notifies subscribers of changes.
func (b *Backend) Run(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { b.trust.Run(ctx) })
	if b.set != nil {
		tasks.Go(func() { b.set.Run(ctx) })
	}
	for {
		b.mu.Lock()
		added := b.added
		b.added = nil
		b.probing += len(added)
		b.mu.Unlock()
		for _, e := range added {
			tasks.Go(func() {
				b.keepProbing(ctx, e)
				b.mu.Lock()
				b.probing--
				b.mu.Unlock()
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-b.changed:
		}
	}
}

// Finished reports whether the backend has no replicas, and no removed ones with requests in flight.
func (b *Backend) Finished() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.endpoints)+len(b.added)+b.probing == 0
}

// signal wakes up the receiver, now or when it receives next.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
