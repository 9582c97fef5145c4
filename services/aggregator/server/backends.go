// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/follow"
	"github.com/tripod-k8s/tripod/base/hop/rpc"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/base/service/settings"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/discovery"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// backend is a service behind the aggregator, and what follows it.
type backend struct {
	*upstream.Backend
	// rank is 0 for core and extensions. Other backends count from 1, in the order of the list.
	rank int
	// serves reports whether clients may find a group-version of the backend. It is false for one that another backend serves.
	serves func(schema.GroupVersion) bool
	// locate finds where a replica serves gRPC.
	locate atomic.Pointer[func(address string) (string, bool)]
	// discovery knows what the backend serves, and merges it.
	discovery *discovery.Source
	// feed follows what the replicas report about themselves.
	feed *feeds.Follower
	// firstReplicas knows which replica had a custom resource first. It is nil if the backend serves no custom resources.
	firstReplicas *feeds.FirstReplicas
}

// ofOthers reports whether the backend is an additional API service, and neither core nor a partition of extensions.
func (b *backend) ofOthers() bool {
	return b.rank > 0 && !routing.Owner(b.Name()).ServesCustomResources()
}

// backends are all backends. What merges their documents takes an entry from the first that has it.
type backends []*backend

// named returns the backend of a name, or nil if there is none.
func (all backends) named(owner routing.Owner) *backend {
	if i := slices.IndexFunc(all, func(b *backend) bool { return b.Name() == string(owner) }); i >= 0 {
		return all[i]
	}
	return nil
}

// required are those without which no aggregator is ready: core and extensions. An additional backend delays its own clients only.
func (all backends) required() backends {
	return slices.DeleteFunc(slices.Clone(all), func(b *backend) bool { return b.rank > 0 })
}

// reconsider has discovery show a group-version of the backend that serves it now.
func (all backends) reconsider(gv schema.GroupVersion) {
	for _, b := range all {
		b.discovery.Reconsider(gv)
	}
}

// upstreams are the ways to their replicas.
func (all backends) upstreams() []*upstream.Backend {
	list := make([]*upstream.Backend, len(all))
	for i, b := range all {
		list[i] = b.Backend
	}
	return list
}

func newBackend(config upstream.Config, replicas addresses.Replicas) (*backend, error) {
	config.Servers = replicas.Servers
	way, err := upstream.New(config)
	if err != nil {
		return nil, err
	}
	b := &backend{Backend: way}
	return b, b.set(replicas)
}

// set says where the replicas are.
func (b *backend) set(replicas addresses.Replicas) error {
	locate, err := feeds.Locator(replicas.Servers, replicas.GRPC)
	if err != nil {
		return err
	}
	b.locate.Store(&locate)
	return b.SetServers(replicas.Servers)
}

// Serves implements openapi.Backend.
func (b *backend) Serves(gv schema.GroupVersion) bool { return b.serves(gv) }

// Limited implements openapi.Backend.
func (b *backend) Limited() bool { return b.rank > 0 }

// grpc returns the address at which the replica at an address serves gRPC.
func (b *backend) grpc(address string) (string, bool) {
	return (*b.locate.Load())(address)
}

// grpcAddresses returns those of all replicas.
func (b *backend) grpcAddresses() []string {
	var all []string
	for _, address := range b.Addresses() {
		if at, ok := b.grpc(address); ok {
			all = append(all, at)
		}
	}
	return all
}

// spareAtGRPC reports whether the replica that serves gRPC at an address can be spared.
func (b *backend) spareAtGRPC(address string) bool {
	for _, replica := range b.Addresses() {
		if at, ok := b.grpc(replica); ok && at == address {
			return b.Spare(replica)
		}
	}
	return true // it is no replica any more
}

// locateBackends makes the backends, with their replicas where they are when the aggregator starts.
func (c *Config) locateBackends() error {
	for i, entry := range c.options.Backends.List() {
		config := upstream.Config{Name: entry.Name, Balance: entry.Balance, Trust: c.options.ServiceTrust,
			SharedWatches: c.options.SharedWatches}
		var firstReplicas *feeds.FirstReplicas
		if routing.Owner(entry.Name).ServesCustomResources() {
			firstReplicas = feeds.NewFirstReplicas()
			config.FirstReplica = firstReplicas.Of
		}
		b, err := newBackend(config, entry.Replicas)
		if err != nil {
			return err
		}
		b.rank, b.firstReplicas = max(i-1, 0), firstReplicas
		c.backends = append(c.backends, b)
	}
	c.core, c.extensions = c.backends.named(routing.Core), c.backends.named(routing.Extensions)
	var additional []string
	for _, b := range c.backends {
		if b.rank > 0 {
			additional = append(additional, b.Name())
		}
	}
	c.table = routing.NewTable(apiservices.Builtin, additional...)
	table, err := partitions.In(c.options.Backends.Services)
	if err != nil {
		return err
	}
	c.table.Divide(func(group string) routing.Owner {
		if partition := table.Of(group); partition != partitions.Default {
			return routing.Owner(addresses.PartitionBackend(partition))
		}
		return routing.Extensions
	})
	c.partitions = table
	return nil
}

// groups returns the API groups of additional backends that have a limit.
func (c *Config) groups() map[string][]string {
	limited := map[string][]string{}
	for name, service := range c.options.Backends.Services {
		if len(service.Groups) > 0 {
			limited[name] = service.Groups
		}
	}
	return limited
}

// serving returns the serves of a backend. An additional backend serves what its APIServices name it for. Of the others, core goes first.
func (c *Config) serving(b *backend) func(schema.GroupVersion) bool {
	return func(gv schema.GroupVersion) bool {
		owner := c.backends.named(c.table.GroupVersion(gv).Owner)
		return owner == b || b.rank == 0 && (owner == nil || owner.rank == 0)
	}
}

// followBackends makes what follows the backends: their discovery documents, and what their replicas report about themselves.
func (c *Config) followBackends() error {
	var err error
	if c.settings, err = c.ownSettings(); err != nil {
		return err
	}
	c.settings.SetPartitions(c.partitions.String())
	c.comparison = feeds.NewComparison(c.settings.Now().GetConfiguration(), apiservices.Builtin)
	c.versions = feeds.NewVersions(c.settings.Now())
	for _, b := range c.backends {
		b.serves = c.serving(b)
		b.discovery = discovery.NewSource(discovery.Config{
			Backend: b.Backend, Merged: c.generic.AggregatedDiscoveryGroupManager, Rank: b.rank, Shows: b.serves, Legacy: b == c.core,
			OnMerged: func(resources map[schema.GroupVersionResource]bool) {
				c.table.SetResources(routing.Owner(b.Name()), resources)
			},
		})
		config := feeds.Config{
			OfOthers: b.ofOthers(), Backend: b, Locate: b.grpc, Settings: c.settings.Now(), OnDocuments: b.discovery.Kick,
			Dial: func(address string) (follow.Conn, error) {
				return rpc.Dial(address, b.Name(), &c.options.ServiceTrust, c.generic.TracerProvider)
			},
		}
		if !b.ofOthers() {
			config.Comparison, config.Versions = c.comparison, c.versions // an API service of others takes its configuration from its own operator
		} else {
			config.OnLongRunning = func(subresources map[schema.GroupVersionResource]bool) {
				c.table.SetLongRunning(routing.Owner(b.Name()), subresources)
			}
		}
		config.OnServed = func(served []schema.GroupVersion) {
			if b == c.core {
				c.table.SetCore(served)
			}
			c.registered.registrar.Set(b.Name(), served)
		}
		config.FirstReplicas = b.firstReplicas
		b.feed = feeds.New(config)
	}
	return nil
}

// ownSettings are those that the replicas of the backends must have, too.
func (c *Config) ownSettings() (*service.Settings, error) {
	o := c.options
	modes, err := o.Authorization.ModesInForce()
	if err != nil {
		return nil, err
	}
	anonymous, err := o.Authentication.Anonymous()
	if err != nil {
		return nil, err
	}
	return o.ReadSettings(settings.Access{Modes: modes, Anonymous: anonymous}, o.Admission)
}

// installBackends probes the replicas of the backends, and follows what they report about themselves and where they are.
func (s *Server) installBackends() error {
	s.run("follow-backends", func(ctx context.Context) {
		for _, b := range s.backends {
			go b.feed.Run(ctx)
		}
		go s.settings.Follow(ctx, func(now *backendv1.Settings) { s.comparison.SetOwn(now.GetConfiguration()) })
		if path := s.options.BackendsFile; path != "" {
			go addresses.WatchBackends(ctx, path, s.options.Backends, s.setBackends)
		}
	})
	s.run("probe-backends", func(ctx context.Context) {
		for _, b := range s.backends {
			go b.Run(ctx)
		}
	})
	return nil
}

// setBackends follows the file that says where replicas are. Which backends there are is decided at the start.
func (c *Config) setBackends(now *addresses.Backends) {
	file, left := c.options.BackendsFile, slices.Clone(c.backends)
	for _, entry := range now.List() {
		b := c.backends.named(routing.Owner(entry.Name))
		if b == nil {
			klog.ErrorS(nil, "Restart this aggregator to use a backend that was added to the file", "backend", entry.Name, "file", file)
			continue
		}
		left = slices.DeleteFunc(left, func(other *backend) bool { return other == b })
		if err := b.set(entry.Replicas); err != nil {
			klog.ErrorS(err, "Not following the file of backends", "backend", b.Name(), "file", file)
		}
	}
	for _, b := range left {
		klog.ErrorS(nil, "Restart this aggregator to forget a backend that was removed from the file", "backend", b.Name(), "file", file)
	}
}
