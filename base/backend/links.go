// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/admission/loopback"
	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/feed"
	"github.com/tripod-k8s/tripod/base/hop/link"
	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// links are how a backend reaches the other services.
type links struct {
	core, aggregator *link.Link
	// served is what clients find here.
	served *loopback.Served
}

// newLinks returns links to where the other services are now. own says what the service certainly serves.
func newLinks(o *Options, others Neighbours, own func(schema.GroupVersion) bool) *links {
	return &links{
		core:       link.New("core", others.Core, o.ServiceTrust),
		aggregator: link.NewAggregator(others.Aggregator, o.ServiceTrust),
		served:     loopback.NewServed(own),
	}
}

// start follows the replicas of the other services, and the backends file if there is one, until the context ends.
func (l *links) start(ctx context.Context, group *sync.WaitGroup, o *Options, others Neighbours) {
	group.Go(func() { l.core.Run(ctx) })
	group.Go(func() { l.core.FollowReplicas(ctx) })
	group.Go(func() { l.aggregator.Run(ctx) })
	if o.BackendsFile != "" {
		group.Go(func() { addresses.WatchBackends(ctx, o.BackendsFile, others.Backends, l.follow) })
	}
}

// follow updates the addresses of the other services.
func (l *links) follow(backends *addresses.Backends) {
	l.aggregator.FollowAggregator(backends)
	servers, err := coreIn(backends)
	if err != nil {
		klog.ErrorS(err, "Core stays where it was")
		return
	}
	l.core.SetServers(servers)
}

// wholeConfig returns the configuration of the clients of admission. They see what all services serve: its own resources here, built-in
// resources in core, and everything else through the aggregator.
func (l *links) wholeConfig(config *genericapiserver.Config, kinds *loopback.Kinds) (*rest.Config, error) {
	core, err := l.coreForAdmission(config.TracerProvider)
	if err != nil {
		return nil, fmt.Errorf("client of core: %w", err)
	}
	client := l.aggregator.Config(link.Fail)
	client.Wrap(tracing.WrapperFor(config.TracerProvider))
	aggregator, err := rest.TransportFor(client)
	if err != nil {
		return nil, fmt.Errorf("client of the aggregator: %w", err)
	}
	return loopback.Split{
		Self:   config.LoopbackClientConfig,
		Serves: l.served.Has,
		Direct: func(gv schema.GroupVersion) http.RoundTripper {
			if clientgoscheme.Scheme.IsVersionRegistered(gv) {
				return core
			}
			return nil
		},
		Aggregator: aggregator,
		Kinds:      kinds,
	}.Config()
}

// coreForAdmission returns the transport from admission to core. Informers wait for core; questions about a request do not, because the
// request would time out.
func (l *links) coreForAdmission(tracer trace.TracerProvider) (http.RoundTripper, error) {
	watches, err := rest.TransportFor(l.core.Config(link.Wait))
	if err != nil {
		return nil, err
	}
	asked := l.core.Config(link.Fail)
	asked.Wrap(tracing.WrapperFor(tracer))
	others, err := rest.TransportFor(asked)
	if err != nil {
		return nil, err
	}
	return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		if req.URL.Query().Has("watch") {
			return watches.RoundTrip(req)
		}
		return others.RoundTrip(req)
	}), nil
}

// Publisher sends aggregators, and the loopback clients of the service, what this replica serves.
type Publisher struct {
	*feed.Publisher
	served *loopback.Served
}

// SetCatalog says what the replica serves.
func (p Publisher) SetCatalog(served *backendv1.Catalog) {
	p.served.Set(served)
	p.Publisher.SetCatalog(served)
}
