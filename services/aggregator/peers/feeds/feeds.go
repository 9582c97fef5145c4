// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package feeds follows what the replicas of a backend tell of themselves: tripod.backend.v1.
//
// A feed tells at once what probes and polls would find out later: that a replica drains or is lost, that it serves something
// else, that it has a new custom resource first. The loss of a feed takes nothing away.
package feeds

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/internal/hop/follow"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Backend is a backend whose replicas have feeds. Their address, host:port, names them.
type Backend interface {
	Name() string
	// Addresses are those of all replicas.
	Addresses() []string
	// Subscribe calls the function when these may have changed. It must not block.
	Subscribe(func())
	// SetDraining tells whether a replica is about to stop.
	SetDraining(address string, draining bool)
	// ProbeNow tells that a replica's state may have changed.
	ProbeNow(address string)
}

// Config says what to follow, and whom to tell.
type Config struct {
	Backend Backend
	// Locate returns the address at which the replica at an address serves gRPC, or false if it does not.
	Locate func(address string) (string, bool)
	// Dial returns a connection to an address. It does not wait for it.
	Dial func(address string) (follow.Conn, error)
	// Settings are those of this process. The follower compares them with those of the replicas.
	Settings *backendv1.Settings
	// Comparison hears how replicas are configured. It may be nil.
	Comparison *Comparison
	// OnServed hears all group-versions that the backend serves, when they change and once at the start. The start is when a
	// replica has told all of its own.
	OnServed func([]schema.GroupVersion)
	// Firsts hears which replica had a custom resource first. It may be nil.
	Firsts *Firsts
	// OnDocuments hears that discovery or OpenAPI documents may have changed at a replica.
	OnDocuments func()
}

// Follower follows the feeds of one backend.
type Follower struct {
	config  Config
	changed chan struct{}

	// telling keeps what OnServed hears in order.
	telling sync.Mutex

	mu       sync.Mutex
	replicas map[string]*replica
	// served is what OnServed heard last. It is nil before.
	served []schema.GroupVersion
	// agreed is whether a replica ever had the settings of this process.
	agreed bool
}

// replica is what is known of a replica that is followed.
type replica struct {
	// live is whether its feed can be read, and catalog its last catalog.
	live    bool
	catalog *backendv1.Catalog
	// differences are those of its settings, while it is live.
	differences []string
	// lost is when its feed broke off.
	lost time.Time
}

// remembered is how long a catalog counts after its feed is lost, while other replicas are heard. A replica that is away longer
// may have missed something.
const remembered = 30 * time.Second

// counts reports whether the catalog counts while others are heard.
func (r *replica) counts() bool {
	return r.catalog != nil && (r.live || time.Since(r.lost) < remembered)
}

// New returns a follower that does nothing before Run.
func New(config Config) *Follower {
	f := &Follower{
		config:   config,
		changed:  make(chan struct{}, 1),
		replicas: map[string]*replica{},
	}
	config.Backend.Subscribe(func() {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	})
	return f
}

// Run follows every replica until the context ends.
func (f *Follower) Run(ctx context.Context) {
	replicas := follow.NewEach(func(one context.Context, address string) {
		r := &replica{}
		f.add(address, r)
		f.follow(one, address, r)
		if ctx.Err() == nil { // an aggregator that stops takes nothing away
			f.remove(address, r)
		}
	})
	defer replicas.Wait()
	for {
		replicas.Set(ctx, f.config.Backend.Addresses())
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		}
	}
}

func (f *Follower) add(address string, r *replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas[address] = r
}

func (f *Follower) remove(address string, r *replica) {
	f.mu.Lock()
	if f.replicas[address] == r { // and not one that came back meanwhile
		delete(f.replicas, address)
		f.config.Comparison.forget(f.config.Backend.Name(), address)
	}
	f.mu.Unlock()
	f.tell()
}

// CallsWebhookAt reports whether a replica will call the conversion webhook of a CustomResourceDefinition at a path of the kubernetes
// Service, and whether any has told of them.
func (f *Follower) CallsWebhookAt(path string) (calls, heard bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.replicas {
		if r.counts() {
			heard = true
			calls = calls || slices.Contains(r.catalog.GetConversionWebhooks(), path)
		}
	}
	return calls, heard
}

// hear takes over a message.
func (f *Follower) hear(address string, r *replica, message *backendv1.WatchResponse) {
	f.config.Backend.SetDraining(address, message.GetPhase() == backendv1.WatchResponse_PHASE_DRAINING)
	catalog := message.GetCatalog()
	before := f.take(address, r, message)
	f.config.Firsts.note(address, message.GetEstablished())
	if catalog == nil {
		return
	}
	f.tell()
	if before.GetDiscoveryDigest() != catalog.GetDiscoveryDigest() || before.GetOpenapiDigest() != catalog.GetOpenapiDigest() {
		f.config.OnDocuments()
	}
}

// take keeps what a message says of its replica, and returns the catalog from before.
func (f *Follower) take(address string, r *replica, message *backendv1.WatchResponse) (before *backendv1.Catalog) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if told := message.GetSettings(); !r.live || told != nil {
		f.compare(address, r, told)
		f.config.Comparison.hear(f.config.Backend.Name(), address, told.GetConfiguration())
	}
	r.live = true
	before = r.catalog
	if catalog := message.GetCatalog(); catalog != nil {
		r.catalog = catalog
	}
	return before
}

// lose notes that the feed of a replica is lost.
func (f *Follower) lose(address string, r *replica) {
	f.mu.Lock()
	was := r.live
	if was {
		r.live, r.lost = false, time.Now()
		f.config.Comparison.forget(f.config.Backend.Name(), address)
		time.AfterFunc(remembered, f.tell)
	}
	f.mu.Unlock()
	if was {
		f.config.Backend.ProbeNow(address)
		// A draining replica has stopped, or was restarted. In that case its new feed says how it is.
		f.config.Backend.SetDraining(address, false)
	}
}

// tell calls OnServed if the group-versions changed that any replica serves, or served a moment ago. While no replica is heard, nothing
// changes.
func (f *Follower) tell() {
	f.telling.Lock()
	defer f.telling.Unlock()
	if now, news := f.sum(); news {
		f.config.OnServed(now)
	}
}

// sum returns the group-versions that any replica serves, and whether OnServed has to hear of them.
func (f *Follower) sum() (now []schema.GroupVersion, news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	served := map[schema.GroupVersion]bool{}
	heard := false
	for _, r := range f.replicas {
		if !r.counts() {
			continue
		}
		heard = heard || r.live
		for _, gv := range r.catalog.GetGroupVersions() {
			served[schema.GroupVersion{Group: gv.GetGroup(), Version: gv.GetVersion()}] = true
		}
	}
	now = slices.SortedFunc(maps.Keys(served), func(a, b schema.GroupVersion) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version))
	})
	news = heard && (f.served == nil || !slices.Equal(now, f.served))
	if news {
		f.served = now
	}
	return now, news
}
