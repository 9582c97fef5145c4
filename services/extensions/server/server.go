// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs extensions: the CRD server of kube-apiserver as an API server of its own.
package server

import (
	"context"
	"sync"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/internal/hop/feed"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/settings"
	"github.com/tripod-k8s/tripod/services/extensions/catalog"
)

// Server is extensions before it serves.
type Server struct {
	*Config
	api *genericapiserver.GenericAPIServer
	// definitions are the CustomResourceDefinitions that the server follows.
	definitions *apiextensionsapiserver.CustomResourceDefinitions
	// settings are what this replica tells of its configuration.
	settings *service.Settings
	// publisher tells aggregators of this replica.
	publisher publisher
}

// New builds the server.
func New(c *Config) (*Server, error) {
	// Paths that nobody serves are 404 only once all CustomResourceDefinitions are known, and 503 before.
	notFound := notfoundhandler.New(c.generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	definitions, err := c.apiextensions.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, err
	}
	api := definitions.GenericAPIServer
	if err := installRootDiscovery(api); err != nil {
		return nil, err
	}
	if err := api.AddReadyzChecks(c.others.core); err != nil {
		return nil, err
	}
	modes, err := c.options.Authorization.ModesInForce()
	if err != nil {
		return nil, err
	}
	own, err := c.options.ReadSettings(settings.Access{Modes: modes}, c.options.Admission)
	if err != nil {
		return nil, err
	}
	return &Server{
		Config: c, api: api, definitions: definitions, settings: own,
		publisher: publisher{
			Publisher: feed.NewPublisher(own.Now(), c.inFlight.InFlight),
			served:    c.others.served,
		},
	}, nil
}

// Run implements service.Server.
func (s *Server) Run(ctx context.Context, ports *service.Ports) error {
	prepared := s.api.PrepareRun()
	ports.Probes.Serve(s.api.Handler.NonGoRestfulMux)
	definitions := s.definitions.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer()
	if err := catalog.Follow(definitions, version.Get().GitVersion, s.publisher); err != nil {
		return err
	}
	if ports.GRPC == nil {
		return prepared.RunWithContext(ctx)
	}
	go s.settings.Follow(ctx, s.publisher.SetSettings)
	server := rpc.NewServer(&s.options.ServiceTrust, []string{trust.Aggregator}, s.generic.TracerProvider)
	s.publisher.Register(server)
	server.Health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	settle := sync.OnceFunc(s.informers.Settle)
	readiness := feed.NewReadiness(s.api.Handler.NonGoRestfulMux, func(failing []string) {
		if len(failing) == 0 {
			settle()
		}
		s.publisher.SetReady(failing)
	})
	ports.Probes.Serve(readiness)
	go readiness.Follow(ctx)
	return rpc.Beside{
		API:      prepared.RunWithContext,
		Server:   server,
		Listener: ports.GRPC,
		Drain:    s.publisher.Drain,
		Stop:     s.publisher.Stop,
	}.Run(ctx)
}
