// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upstream is the way to the replicas of core, of extensions and of aggregated API servers. It knows where they are and
// how they are, chooses one for each request, and sends a request that did not get through to
// another one, where that can do no harm.
//
// A request is never sent again when a replica may have processed it, unless it only reads
// (call.go). Which replica is best is decided by package balance, among those of the best rank
// (health.go); what can be known about a request without an answer is said by package connections.
package upstream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/replicas"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// Names of the two backends. They are also the names of the Services that APIServices of the
// service form refer to, in Namespace.
const (
	Core       = string(routing.Core)
	Extensions = string(routing.Extensions)

	// Namespace is the namespace that APIServices of the service form name.
	Namespace = trust.Namespace
)

// Backend is a server with any number of replicas. It is an http.RoundTripper: a request for it
// needs only a path.
type Backend struct {
	name   string
	policy balance.Policy
	trust  *connections.Trust
	budget *budget
	// set says where the replicas of core and extensions are. It is nil for an aggregated API server.
	set    *replicas.Set
	checks checks
	// dial is nil for the network's own.
	dial connections.Dial
	// holds is set when short answers are held back until they are complete (see hold).
	holds bool
	// firstReplica may be nil (see Config).
	firstReplica func(schema.GroupResource) (address string, ok bool)

	// roster is what requests see.
	roster atomic.Pointer[roster]
	// wasReady is whether a replica was ever found ready.
	wasReady atomic.Bool
	// holding is how many answers are held back (see hold).
	holding atomic.Int64

	mu        sync.Mutex
	endpoints map[string]*endpoint
	// added are endpoints that Run does not probe yet.
	added       []*endpoint
	subscribers []func()
	// probing counts the endpoints that Run probes. It includes removed ones that still finish requests.
	probing int
	// changed is signalled when endpoints were added or removed.
	changed chan struct{}
}

// Config says what a backend is.
type Config struct {
	Name string
	// Servers are where its replicas are, as SetServers takes them.
	Servers []string
	// Trust is the identity of the aggregator.
	Trust trust.Options
	// FirstReplica returns the replica that had a custom resource first, if that was not long ago. It may be nil.
	FirstReplica func(schema.GroupResource) (address string, ok bool)
}

// New returns the backend of that name with its replicas at the servers (see SetServers).
func New(c Config) (*Backend, error) {
	trust, err := connections.NewTrust(trust.ServerName(c.Name),
		connections.Files{CA: c.Trust.CAFile, Cert: c.Trust.CertFile, Key: c.Trust.KeyFile})
	if err != nil {
		return nil, fmt.Errorf("connections to %s: %w", c.Name, err)
	}
	b := empty(c.Name, trust)
	b.firstReplica = c.FirstReplica
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
		policy:    policyOf(name),
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

// policyOf returns how a backend's requests are spread. A replica of extensions keeps a storage and a
// watch cache for each custom resource that it is asked for.
func policyOf(name string) balance.Policy {
	if name == Extensions {
		return balance.Rendezvous{}
	}
	return balance.TwoChoices{}
}

// Name returns the name of the backend.
func (b *Backend) Name() string { return b.name }

// SetServers says where the replicas of core or extensions are. Each server is the URL of a replica, https://host:port, or a name whose
// addresses are those of replicas, dns:///host:port.
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

// SetAddresses says where the replicas are, host:port. A replica that is no longer among them finishes its requests.
func (b *Backend) SetAddresses(addresses []string) {
	b.mu.Lock()
	changed := b.updateEndpoints(addresses)
	b.mu.Unlock()
	b.notifyIf(changed)
}

// isReady reports whether the last probe of the replica at an address found it ready.
func (b *Backend) isReady(address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.endpoints[address]
	return e != nil && e.health.condition == ready
}

// updateEndpoints makes the endpoints those at the addresses.
func (b *Backend) updateEndpoints(addresses []string) (changed bool) {
	for address, e := range b.endpoints {
		if !slices.Contains(addresses, address) {
			delete(b.endpoints, address)
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

// updateRoster lets requests see how the endpoints are now.
func (b *Backend) updateRoster() {
	r := newRoster(b.endpoints)
	b.roster.Store(r)
	var counts [ranks]int
	for _, t := range r.tiers {
		counts[t.rank] = len(t.endpoints)
	}
	for i, n := range counts {
		endpointsByState.WithLabelValues(b.name, rank(i).String()).Set(float64(n))
	}
}

// SetDraining says that the replica at an address, host:port, is about to stop, or that it is not. One
// that is gets no new requests while there is another, and keeps those that it has.
func (b *Backend) SetDraining(address string, draining bool) {
	b.mu.Lock()
	e := b.endpoints[address]
	b.mu.Unlock()
	if e != nil {
		b.update(e, rankDraining.String(), func(h *health) { h.draining = draining })
	}
}

// update changes what is known about a replica. It reports whether that took the replica out, for
// a reason that is counted.
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
	if ejected {
		e.metrics.ejected(reason)
	}
	return ejected
}

// Run probes the replicas until the context ends, and tells subscribers of changes.
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

// Finished reports whether there are no replicas, and none that were removed have requests to finish.
func (b *Backend) Finished() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.endpoints)+len(b.added)+b.probing == 0
}

// signal wakes up whoever waits, now or later.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
