// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/follow"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/service/settings"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/discovery"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// located is a backend, and where its replicas serve gRPC.
type located struct {
	*upstream.Backend
	locate atomic.Pointer[func(address string) (string, bool)]
}

func newLocated(config upstream.Config, replicas addresses.Replicas) (*located, error) {
	config.Servers = replicas.Servers
	b, err := upstream.New(config)
	if err != nil {
		return nil, err
	}
	l := &located{Backend: b}
	return l, l.set(replicas)
}

// set says where the replicas are.
func (l *located) set(replicas addresses.Replicas) error {
	locate, err := feeds.Locator(replicas.Servers, replicas.GRPC)
	if err != nil {
		return err
	}
	l.locate.Store(&locate)
	return l.SetServers(replicas.Servers)
}

// grpc returns the address at which the replica at an address serves gRPC.
func (l *located) grpc(address string) (string, bool) {
	return (*l.locate.Load())(address)
}

// grpcAddresses returns those of all replicas.
func (l *located) grpcAddresses() []string {
	var all []string
	for _, address := range l.Addresses() {
		if at, ok := l.grpc(address); ok {
			all = append(all, at)
		}
	}
	return all
}

// locateBackends makes the backends, with their replicas where they are when the aggregator starts.
func (c *Config) locateBackends() (err error) {
	o := c.options
	if c.core, err = newLocated(upstream.Config{Name: upstream.Core, Trust: o.ServiceTrust}, o.Backends.Core); err != nil {
		return err
	}
	c.firsts = feeds.NewFirsts()
	extensions := upstream.Config{Name: upstream.Extensions, Trust: o.ServiceTrust, FirstWith: c.firsts.With}
	c.extensions, err = newLocated(extensions, o.Backends.Extensions)
	return err
}

// followBackends makes what follows the backends: their discovery documents, and what their replicas tell of themselves.
func (c *Config) followBackends() error {
	own, err := c.ownSettings()
	if err != nil {
		return err
	}
	merged := c.generic.AggregatedDiscoveryGroupManager
	source := func(l *located) *discovery.Source {
		return discovery.NewSource(l.Backend, merged, func(resources map[schema.GroupVersionResource]bool) {
			c.table.SetResources(routing.Owner(l.Name()), resources)
		})
	}
	c.coreDiscovery, c.extensionsDiscovery = source(c.core), source(c.extensions)
	c.coreFeed = c.newFeed(c.core, feeds.Config{
		Settings: own,
		OnServed: func(served []schema.GroupVersion) {
			c.table.SetCore(served)
			c.registered.registrar.SetCore(served)
		},
		OnDocuments: c.coreDiscovery.Kick,
	})
	c.extensionsFeed = c.newFeed(c.extensions, feeds.Config{
		Settings:    own,
		OnServed:    c.registered.registrar.SetExtensions,
		OnDocuments: c.extensionsDiscovery.Kick,
		Firsts:      c.firsts,
	})
	return nil
}

// newFeed returns a follower of a backend's feeds. config says who hears of them.
func (c *Config) newFeed(l *located, config feeds.Config) *feeds.Follower {
	config.Backend, config.Locate = l, l.grpc
	config.Dial = func(address string) (follow.Conn, error) {
		return rpc.Dial(address, l.Name(), &c.options.ServiceTrust, c.generic.TracerProvider)
	}
	return feeds.New(config)
}

// ownSettings are those that the replicas of the backends must have, too.
func (c *Config) ownSettings() (*backendv1.Settings, error) {
	o := c.options
	modes, err := o.Authorization.ModesInForce()
	if err != nil {
		return nil, err
	}
	anonymous, err := o.Authentication.Anonymous()
	if err != nil {
		return nil, err
	}
	return settings.Of(o.ServerRun.ComponentGlobalsRegistry, o.APIEnablement.RuntimeConfig, settings.Access{Modes: modes, Anonymous: anonymous}), nil
}

// installBackends probes the replicas of the backends, and follows what they tell of themselves and where they are.
func (s *Server) installBackends() error {
	s.run("follow-backends", func(ctx context.Context) {
		go s.coreFeed.Run(ctx)
		go s.extensionsFeed.Run(ctx)
		if path := s.options.BackendsFile; path != "" {
			go addresses.WatchBackends(ctx, path, s.options.Backends, s.setBackends)
		}
	})
	s.run("probe-backends", func(ctx context.Context) {
		go s.core.Run(ctx)
		go s.extensions.Run(ctx)
	})
	return nil
}

// setBackends follows the file that says where replicas are.
func (c *Config) setBackends(now *addresses.Backends) {
	for l, replicas := range map[*located]addresses.Replicas{c.core: now.Core, c.extensions: now.Extensions} {
		if err := l.set(replicas); err != nil {
			klog.ErrorS(err, "Not following the file of backends", "backend", l.Name(), "file", c.options.BackendsFile)
		}
	}
}
