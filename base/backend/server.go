// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"sync"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tripod-k8s/tripod/base/hop/feed"
	"github.com/tripod-k8s/tripod/base/hop/rpc"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/service"
)

// Server is a backend before it serves.
type Server struct {
	*Config
	api *genericapiserver.GenericAPIServer
	// settings are what this replica reports of its configuration. Nil reports nothing.
	settings  *service.Settings
	publisher Publisher
}

// NewServer makes a backend of an API server that was built from the configuration. Aggregators compare its settings with theirs, unless
// they are nil.
func (c *Config) NewServer(api *genericapiserver.GenericAPIServer, own *service.Settings) (*Server, error) {
	if err := api.AddReadyzChecks(c.others.core); err != nil {
		return nil, err
	}
	return &Server{
		Config: c, api: api, settings: own,
		publisher: Publisher{
			Publisher: feed.NewPublisher(own.Now(), c.inFlight),
			served:    c.others.served,
		},
	}, nil
}

// Run serves until the context ends, and then shuts down. publish gives the publisher what the replica serves, now and when that changes.
// When Run returns, the backend is closed.
func (s *Server) Run(ctx context.Context, ports *service.Ports, publish func(Publisher) error) error {
	defer s.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	prepared := s.api.PrepareRun()
	ports.Probes.Serve(s.api.Handler.NonGoRestfulMux)
	if err := publish(s.publisher); err != nil {
		s.api.Destroy() // RunWithContext does it otherwise
		return err
	}
	if ports.GRPC == nil {
		return prepared.RunWithContext(ctx)
	}
	s.group.Go(func() { s.settings.Follow(ctx, s.publisher.SetSettings) })
	server := rpc.NewServer(&s.options.ServiceTrust, []string{trust.Aggregator}, s.Generic.TracerProvider)
	s.publisher.Register(server)
	server.Health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	settle := sync.OnceFunc(s.informers.Settle)
	readiness := feed.NewReadiness(s.api.Handler.NonGoRestfulMux, func(failing []string) {
		if len(failing) == 0 {
			settle()
		}
		s.publisher.SetReady(failing)
	}, s.inFlight.Arrived)
	ports.Probes.Serve(readiness)
	s.group.Go(func() { readiness.Follow(ctx) })
	return rpc.Beside{
		API:      prepared.RunWithContext,
		Server:   server,
		Listener: ports.GRPC,
		Drain:    s.publisher.Drain,
		Stop:     s.publisher.Stop,
	}.Run(ctx)
}
