// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"

	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kube-aggregator/pkg/apiserver"
	openapicontroller "k8s.io/kube-aggregator/pkg/controllers/openapi"
	openapiaggregator "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3controller "k8s.io/kube-aggregator/pkg/controllers/openapiv3"
	openapiv3aggregator "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	localavailability "k8s.io/kube-aggregator/pkg/controllers/status/local"
	availabilitymetrics "k8s.io/kube-aggregator/pkg/controllers/status/metrics"

	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/openapi"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// installAPIServices makes APIServices effective: in routing, discovery and OpenAPI.
func (s *Server) installAPIServices() error {
	handlers := &apiServiceHandlers{
		table:      s.table,
		watches:    s.watches,
		backends:   s.backends,
		aggregated: s.aggregatedServers.proxy,
		directory:  s.aggregatedServers.directory,
		discovery:  apiserver.NewDiscoveryManager(s.api.AggregatedDiscoveryGroupManager.WithSource(discoveryendpoint.AggregatorSource)),
		proxied:    map[string]*currentProxy{},
	}
	if err := s.installOpenAPI(handlers); err != nil {
		return err
	}
	controller := apiserver.NewAPIServiceRegistrationController(s.registered.services, handlers)
	if cert := s.aggregatedServers.clientCert; cert != nil {
		// A new certificate makes new transports.
		cert.AddListener(controller)
		s.run("aggregator-reload-proxy-client-cert", func(ctx context.Context) { go cert.Run(ctx, 1) })
	}

	// Until all APIServices are known, unknown paths are 503 and not 404.
	initiated := make(chan struct{})
	if err := s.api.RegisterMuxAndDiscoveryCompleteSignal("APIServiceRegistrationControllerInitiated", initiated); err != nil {
		return err
	}
	s.run("apiservice-registration-controller", func(ctx context.Context) {
		go controller.Run(ctx.Done(), initiated)
		await(ctx, initiated)
		s.table.SetComplete()
	})
	s.run("apiservice-discovery-controller", func(ctx context.Context) {
		await(ctx, initiated)
		synced := make(chan struct{})
		go handlers.discovery.Run(ctx.Done(), synced)
		await(ctx, synced)
	})
	return nil
}

func await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-done:
	}
}

// installOpenAPI serves the merged documents. kube-aggregator's controllers keep those of aggregated API
// servers and of the aggregator's own group, on muxes that only the merge reads.
func (s *Server) installOpenAPI(handlers *apiServiceHandlers) error {
	local := mux.NewPathRecorderMux("openapi-of-aggregator")

	downloader := openapiaggregator.NewDownloader()
	v2, err := openapiaggregator.BuildAndRegisterAggregator(&downloader, genericapiserver.NewEmptyDelegate(),
		s.api.Handler.GoRestfulContainer.RegisteredWebServices(), s.generic.OpenAPIConfig, local)
	if err != nil {
		return fmt.Errorf("OpenAPI v2: %w", err)
	}
	v3, err := openapiv3aggregator.BuildAndRegisterAggregator(openapiv3aggregator.NewDownloader(), genericapiserver.NewEmptyDelegate(),
		s.api.Handler.GoRestfulContainer, s.generic.OpenAPIV3Config, local)
	if err != nil {
		return fmt.Errorf("OpenAPI v3: %w", err)
	}
	handlers.openAPI = openapicontroller.NewAggregationController(&downloader, v2)
	handlers.openAPIV3 = openapiv3controller.NewAggregationController(v3)
	s.run("apiservice-openapi-controller", func(ctx context.Context) { go handlers.openAPI.RunWithContext(ctx) })
	s.run("apiservice-openapiv3-controller", func(ctx context.Context) { go handlers.openAPIV3.RunWithContext(ctx) })

	public := s.api.Handler.NonGoRestfulMux
	public.Handle("/openapi/v2", openapi.NewV2(s.backends, local))
	merged := openapi.NewV3(s.backends, local)
	public.Handle("/openapi/v3", merged)
	public.HandlePrefix("/openapi/v3/", merged)
	return nil
}

// installAvailability keeps the Available condition of all APIServices.
func (s *Server) installAvailability() error {
	client := s.registered.client.ApiregistrationV1()
	metrics := availabilitymetrics.New()
	if err := metrics.Register(legacyregistry.Register, legacyregistry.CustomRegister); err != nil {
		return err
	}
	remote, err := apiservices.NewAvailability(apiservices.AvailabilityConfig{
		Informer:          s.registered.services,
		Client:            client,
		Backends:          s.backends.upstreams(),
		AggregatedServers: s.aggregatedServers.directory,
		Claims:            s.registered.registrar,
		Metrics:           metrics,
	})
	if err != nil {
		return err
	}
	local, err := localavailability.New(s.registered.services, client, metrics)
	if err != nil {
		return err
	}
	s.run("apiservice-status-local-available-controller", func(ctx context.Context) { go local.Run(5, ctx.Done()) })
	s.run("apiservice-status-remote-available-controller", func(ctx context.Context) { go remote.Run(ctx) })
	return nil
}

// readyOnce fails until a backend was ready once. Clients that wait for a new cluster rely on what core makes at its
// start, such as namespaces and roles. Later the backend may be away: what others serve must stay reachable.
func readyOnce(b *upstream.Backend) healthz.HealthChecker {
	return healthz.NamedCheck(b.Name()+"-ready-once", func(*http.Request) error { return b.ReadyOnce() })
}

// seenOnce fails until the discovery document of a backend was fetched once.
func seenOnce(b *backend) healthz.HealthChecker {
	return healthz.NamedCheck(b.Name()+"-seen", func(*http.Request) error {
		if !b.discovery.Fetched() {
			return fmt.Errorf("%s was not reached yet", b.Name())
		}
		return nil
	})
}
