// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/service/settings"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// located is a backend, and where its replicas serve gRPC.
type located struct {
	*upstream.Backend
	locate atomic.Pointer[func(address string) (string, bool)]
}

func newLocated(name string, replicas addresses.Replicas, identity upstream.Identity) (*located, error) {
	b, err := upstream.New(name, replicas.Servers, identity)
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

// newFeeds returns a follower of a backend's feeds.
func (c *config) newFeeds(l *located, onServed func([]schema.GroupVersion), onDocuments func()) *feeds.Follower {
	return feeds.New(feeds.Config{
		Backend: l,
		Locate:  l.grpc,
		Dial: func(address string) (feeds.Conn, error) {
			return rpc.Dial(address, l.Name(), &c.options.ServiceTrust, c.generic.TracerProvider)
		},
		Settings:    settings.Of(c.options.ServerRun.ComponentGlobalsRegistry, c.options.APIEnablement.RuntimeConfig),
		OnServed:    onServed,
		OnDocuments: onDocuments,
	})
}

// installFeeds follows what the replicas of the backends tell of themselves.
func (s *server) installFeeds() error {
	core := s.config.newFeeds(s.config.core, func(served []schema.GroupVersion) {
		s.table.SetCore(served)
		s.registrar.SetCore(served)
	}, s.coreDiscovery.Kick)
	extensions := s.config.newFeeds(s.config.extensions, s.registrar.SetExtensions, s.extensionsDiscovery.Kick)
	s.config.extensions.SetFirstWith(extensions.FirstWith)
	s.config.webhooks.conversion = extensions.CallsWebhookAt
	s.followers = []*feeds.Follower{core, extensions}
	s.run("follow-backends", func(ctx context.Context) {
		go core.Run(ctx)
		go extensions.Run(ctx)
		if path := s.config.options.BackendsFile; path != "" {
			go addresses.WatchBackends(ctx, path, s.config.options.Backends, s.config.setBackends)
		}
	})
	return nil
}

// setBackends follows the file that says where replicas are.
func (c *config) setBackends(now *addresses.Backends) {
	for l, replicas := range map[*located]addresses.Replicas{c.core: now.Core, c.extensions: now.Extensions} {
		if err := l.set(replicas); err != nil {
			klog.ErrorS(err, "Not following the file of backends", "backend", l.Name(), "file", c.options.BackendsFile)
		}
	}
}
