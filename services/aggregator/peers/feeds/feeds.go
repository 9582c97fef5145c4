// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package feeds follows what the replicas of a backend report about themselves (tripod.backend.v1).
//
// A feed reports at once what probes and polls would find later: a replica drains or is lost, serves other group-versions, or is the first
// with a new custom resource. If a feed is lost, nothing becomes unavailable.
package feeds

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Backend is a backend whose replicas have feeds. The address of a replica, host:port, is its name.
type Backend interface {
	Name() string
	// Addresses returns the addresses of all replicas.
	Addresses() []string
	// Subscribe makes the backend call a function when the addresses may have changed. The function must not block.
	Subscribe(func())
	// SetDraining reports whether a replica is about to stop.
	SetDraining(address string, draining bool)
	// SetServing reports whether a replica serves. It is called with each message of the feed, every 400 ms, or in the announced time.
	SetServing(address string, serves bool, next time.Duration)
	// SetHeldBack reports whether a replica shall get no requests while another one serves.
	SetHeldBack(address string, held bool)
	// SetPartlyServed names the group-versions that some serving replicas lack, with the addresses of those that have them. They include
	// replicas that served a moment ago.
	SetPartlyServed(map[schema.GroupVersion][]string)
	// Spare reports whether the replica at an address can be spared, because another one serves.
	Spare(address string) bool
	// ProbeNow reports that the state of a replica may have changed.
	ProbeNow(address string)
}

// Config says which feeds to follow, and where to report.
type Config struct {
	Backend Backend
	// Locate returns the gRPC address of the replica at an address. It returns false if the replica serves no gRPC.
	Locate func(address string) (string, bool)
	// Dial returns a connection to an address, without waiting until it is connected.
	Dial func(address string) (follow.Conn, error)
	// Settings are the settings of this process. The follower compares those of replicas with them.
	Settings *backendv1.Settings
	// OfOthers is set if the backend is an API service of others, which may be built from another version of Kubernetes.
	OfOthers bool
	// Comparison receives the configuration of replicas. It may be nil.
	Comparison *Comparison
	// Versions receives the settings of replicas. It may be nil.
	Versions *Versions
	// OnServed receives all group-versions that the backend serves: the first time when one replica has reported all of its own, and then
	// after each change. While replicas serve, those of a replica that does not serve yet are not among them.
	OnServed func([]schema.GroupVersion)
	// OnLongRunning receives all subresources that the backend declares as long-running, such as books/tail, before OnServed and after
	// each change. It may be nil.
	OnLongRunning func(map[schema.GroupVersionResource]bool)
	// FirstReplicas receives which replica had a custom resource first. It may be nil.
	FirstReplicas *FirstReplicas
	// OnDocuments is called when discovery or OpenAPI documents of a replica may have changed.
	OnDocuments func()
}

// Follower follows the feeds of one backend.
type Follower struct {
	config  Config
	changed chan struct{}

	// reporting keeps the calls of OnLongRunning and OnServed in order.
	reporting sync.Mutex

	mu       sync.Mutex
	replicas map[string]*replica
	// reported is the last union that was reported. It is nil before the first.
	reported *union
	// dropped is when a live replica has lately stopped serving a group-version, as after its CustomResourceDefinition was deleted. What a
	// replica reported before, and can no longer correct, does not count then.
	dropped map[schema.GroupVersion]time.Time
	// agreed is true once a replica had the settings of this process.
	agreed bool
}

// replica is the state of a replica that the follower follows.
type replica struct {
	// live is true while its feed can be read. serves is true if it serves by its last message, even if it is about to stop, and is not
	// held back. served is when that was last so. catalog is its last catalog.
	live, serves bool
	served       time.Time
	catalog      *backendv1.Catalog
	// differences are those of its settings, while it is live.
	differences []string
	// lost is when the feed ended.
	lost time.Time
}

// catalogLifetime is how long a catalog counts after its feed is lost, while the feeds of other replicas are live. A replica that is away
// longer may have missed a change.
const catalogLifetime = 30 * time.Second

// counts reports whether the catalog counts while other feeds are live.
func (r *replica) counts() bool {
	return r.catalog != nil && (r.live || time.Since(r.lost) < catalogLifetime)
}

// New returns a follower. It does nothing before Run.
func New(config Config) *Follower {
	f := &Follower{
		config:   config,
		changed:  make(chan struct{}, 1),
		replicas: map[string]*replica{},
		dropped:  map[schema.GroupVersion]time.Time{},
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
		if ctx.Err() == nil { // an aggregator that stops withdraws nothing
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
	if f.replicas[address] == r { // the replica may have come back meanwhile
		delete(f.replicas, address)
		f.config.Comparison.forget(f.config.Backend.Name(), address)
		f.config.Versions.forget(f.config.Backend, address)
	}
	f.mu.Unlock()
	f.report()
}

// CallsWebhookAt reports whether a replica will call the conversion webhook of a CustomResourceDefinition at a path of the kubernetes
// Service. reported is false if no replica has reported its webhooks.
func (f *Follower) CallsWebhookAt(path string) (calls, reported bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.replicas {
		if r.counts() {
			reported = true
			calls = calls || slices.Contains(r.catalog.GetConversionWebhooks(), path)
		}
	}
	return calls, reported
}

// HasSynced reports whether any replica has reported what the backend serves.
func (f *Follower) HasSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reported != nil
}

// handle handles a message.
func (f *Follower) handle(address string, r *replica, message *backendv1.WatchResponse) {
	f.config.Backend.SetDraining(address, message.GetPhase() == backendv1.WatchResponse_PHASE_DRAINING)
	next := time.Duration(message.GetNextMilliseconds()) * time.Millisecond
	f.config.Backend.SetServing(address, message.GetPhase() == backendv1.WatchResponse_PHASE_SERVING, next)
	catalog := message.GetCatalog()
	before, changed := f.take(address, r, message)
	f.config.FirstReplicas.note(address, message.GetEstablished())
	if changed {
		f.report()
	}
	if catalog == nil {
		return
	}
	if before.GetDiscoveryDigest() != catalog.GetDiscoveryDigest() || before.GetOpenapiDigest() != catalog.GetOpenapiDigest() {
		f.config.OnDocuments()
	}
}

// take stores what a message reports of its replica. It returns the catalog from before, and whether the message may change what the
// backend serves.
func (f *Follower) take(address string, r *replica, message *backendv1.WatchResponse) (before *backendv1.Catalog, changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reported := message.GetSettings(); !r.live || reported != nil {
		f.compare(address, r, reported)
		f.config.Comparison.set(f.config.Backend.Name(), address, reported.GetConfiguration())
		f.config.Versions.set(f.config.Backend, address, reported)
	}
	phase := message.GetPhase()
	serves := phase == backendv1.WatchResponse_PHASE_SERVING || phase == backendv1.WatchResponse_PHASE_DRAINING
	held := f.config.Versions.holdsBack(f.config.Backend, address)
	switch {
	case held:
		serves, r.served = false, time.Time{}
	case serves:
		r.served = time.Now()
	case r.serves:
		time.AfterFunc(catalogLifetime, f.report)
	}
	changed = !r.live || r.serves != serves || message.GetCatalog() != nil
	r.live, r.serves = true, serves
	before = r.catalog
	if catalog := message.GetCatalog(); catalog != nil {
		r.catalog = catalog
		f.noteDropped(before, catalog)
	}
	return before, changed
}

// noteDropped records which group-versions a replica has no longer. The caller holds the mutex.
func (f *Follower) noteDropped(before, now *backendv1.Catalog) {
	left := map[schema.GroupVersion]bool{}
	for _, gv := range before.GetGroupVersions() {
		left[groupVersionOf(gv)] = true
	}
	for _, gv := range now.GetGroupVersions() {
		delete(left, groupVersionOf(gv))
	}
	maps.DeleteFunc(f.dropped, func(_ schema.GroupVersion, since time.Time) bool { return time.Since(since) > catalogLifetime })
	for gv := range left {
		f.dropped[gv] = time.Now()
	}
}

func groupVersionOf(gv *backendv1.GroupVersion) schema.GroupVersion {
	return schema.GroupVersion{Group: gv.GetGroup(), Version: gv.GetVersion()}
}

// lose records that the feed of a replica is lost.
func (f *Follower) lose(address string, r *replica) {
	f.mu.Lock()
	was := r.live
	if was {
		r.live, r.serves, r.lost = false, false, time.Now()
		f.config.Comparison.forget(f.config.Backend.Name(), address)
		f.config.Versions.lose(f.config.Backend, address)
		time.AfterFunc(catalogLifetime, f.report)
	}
	f.mu.Unlock()
	if was {
		f.report()
		f.config.Backend.ProbeNow(address)
		// A draining replica has now stopped or was restarted. After a restart its new feed says whether it drains.
		f.config.Backend.SetDraining(address, false)
	}
}

// union is what any replica serves.
type union struct {
	served      []schema.GroupVersion
	longRunning map[schema.GroupVersionResource]bool
}

// report calls OnLongRunning and OnServed if something changed that any replica serves, or served less than catalogLifetime ago. While no
// feed is live, nothing changes. Before clients find a group-version, the backend knows which replicas have it.
func (f *Follower) report() {
	f.reporting.Lock()
	defer f.reporting.Unlock()
	before, now, partly := f.renew()
	f.config.Backend.SetPartlyServed(partly)
	if now == nil {
		return
	}
	if f.config.OnLongRunning != nil && (before == nil || !maps.Equal(before.longRunning, now.longRunning)) {
		f.config.OnLongRunning(now.longRunning)
	}
	if before == nil || !slices.Equal(before.served, now.served) {
		f.config.OnServed(now.served)
	}
}

// renew returns the union from before and that of now, and the group-versions that some serving replicas lack. The union of now is nil if
// no feed is live.
func (f *Follower) renew() (before, now *union, partly map[schema.GroupVersion][]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	live, serving := false, 0
	for _, r := range f.replicas {
		live = live || r.catalog != nil && r.live
		if r.catalog != nil && r.serves {
			serving++
		}
	}
	if !live {
		return f.reported, nil, nil
	}
	having, present := map[schema.GroupVersion][]string{}, map[schema.GroupVersion]int{}
	served, longRunning := map[schema.GroupVersion]bool{}, map[schema.GroupVersionResource]bool{}
	for address, r := range f.replicas {
		if !r.counts() {
			continue
		}
		for _, gv := range r.catalog.GetGroupVersions() {
			of := groupVersionOf(gv)
			if !r.live && !r.lost.After(f.dropped[of]) {
				continue
			}
			if at := having[of]; r.servedLately() && (len(at) == 0 || at[len(at)-1] != address) { // a lying replica has it twice in its catalog
				having[of] = append(at, address)
				if r.serves {
					present[of]++
				}
			}
			served[of] = served[of] || r.servedLately() || serving == 0 || f.reported.has(of)
			for _, name := range gv.GetLongRunning() {
				if isSubresource(name) {
					longRunning[of.WithResource(name)] = true
				}
			}
		}
	}
	maps.DeleteFunc(served, func(_ schema.GroupVersion, shown bool) bool { return !shown })
	maps.DeleteFunc(having, func(gv schema.GroupVersion, _ []string) bool { return present[gv] == serving })
	before = f.reported
	f.reported = &union{
		served:      slices.SortedFunc(maps.Keys(served), compareVersions),
		longRunning: longRunning,
	}
	return before, f.reported, having
}

// servedLately reports whether the replica serves, or did so a moment ago and may go on.
func (r *replica) servedLately() bool { return r.serves || time.Since(r.served) < catalogLifetime }

func (u *union) has(gv schema.GroupVersion) bool {
	if u == nil {
		return false
	}
	_, has := slices.BinarySearchFunc(u.served, gv, compareVersions)
	return has
}

func compareVersions(a, b schema.GroupVersion) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version))
}

// isSubresource reports whether a name has the form books/tail. A service cannot declare all requests for a resource as long-running.
func isSubresource(name string) bool {
	resource, subresource, _ := strings.Cut(name, "/")
	return resource != "" && subresource != "" && !strings.Contains(subresource, "/")
}
