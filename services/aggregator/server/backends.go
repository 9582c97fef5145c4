// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/follow"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/settings"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/discovery"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// backend is a service behind the aggregator, and what follows it.
type backend struct {
	*upstream.Backend
	// locate finds where a replica serves gRPC.
	locate atomic.Pointer[func(address string) (string, bool)]
	// discovery knows what the backend serves, and merges it.
	discovery *discovery.Source
	// feed follows what the replicas tell of themselves.
	feed *feeds.Follower
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

// locateBackends makes the backends, with their replicas where they are when the aggregator starts.
func (c *Config) locateBackends() (err error) {
	o := c.options
	if c.core, err = newBackend(upstream.Config{Name: upstream.Core, Trust: o.ServiceTrust}, o.Backends.Core); err != nil {
		return err
	}
	c.firstReplicas = feeds.NewFirstReplicas()
	extensions := upstream.Config{Name: upstream.Extensions, Trust: o.ServiceTrust, FirstReplica: c.firstReplicas.Of}
	c.extensions, err = newBackend(extensions, o.Backends.Extensions)
	c.backends = backends{c.core, c.extensions}
	return err
}

// followBackends makes what follows the backends: their discovery documents, and what their replicas tell of themselves.
func (c *Config) followBackends() error {
	var err error
	if c.settings, err = c.ownSettings(); err != nil {
		return err
	}
	c.comparison = feeds.NewComparison(c.settings.Now().GetConfiguration(), apiservices.Builtin)
	for _, b := range c.backends {
		b.discovery = discovery.NewSource(b.Backend, c.generic.AggregatedDiscoveryGroupManager, func(resources map[schema.GroupVersionResource]bool) {
			c.table.SetResources(routing.Owner(b.Name()), resources)
		})
		config := feeds.Config{
			Backend: b, Locate: b.grpc, Settings: c.settings.Now(), Comparison: c.comparison, OnDocuments: b.discovery.Kick,
			Dial: func(address string) (follow.Conn, error) {
				return rpc.Dial(address, b.Name(), &c.options.ServiceTrust, c.generic.TracerProvider)
			},
		}
		switch b {
		case c.core:
			config.OnServed = func(served []schema.GroupVersion) {
				c.table.SetCore(served)
				c.registered.registrar.SetCore(served)
			}
		case c.extensions:
			config.OnServed, config.FirstReplicas = c.registered.registrar.SetExtensions, c.firstReplicas
		}
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

// installBackends probes the replicas of the backends, and follows what they tell of themselves and where they are.
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

// setBackends follows the file that says where replicas are.
func (c *Config) setBackends(now *addresses.Backends) {
	for b, replicas := range map[*backend]addresses.Replicas{c.core: now.Core, c.extensions: now.Extensions} {
		if err := b.set(replicas); err != nil {
			klog.ErrorS(err, "Not following the file of backends", "backend", b.Name(), "file", c.options.BackendsFile)
		}
	}
}
