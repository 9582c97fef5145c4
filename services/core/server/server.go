// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs core: the control plane of kube-apiserver without the CRD server before it and the aggregator
// around it, and what aggregators ask and receive.
package server

import (
	"context"
	"sync"

	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/pkg/controlplane"

	"github.com/tripod-k8s/tripod/base/hop/feed"
	"github.com/tripod-k8s/tripod/base/hop/rpc"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/core/endpoints"
	"github.com/tripod-k8s/tripod/services/core/identity"
)

// Server is core, ready to run.
type Server struct {
	*Config
	api *genericapiserver.GenericAPIServer
	// The services that aggregators call.
	identity  *identity.Service
	settings  *service.Settings
	publisher *feed.Publisher
	endpoints *endpoints.Service
}

// New builds the server.
func New(c *Config) (*Server, error) {
	instance, err := newInstance(c.kube, c.options.AdvertisePort)
	if err != nil {
		return nil, err
	}
	if c.options.BindKubeletClient {
		if err := bindKubeletClient(instance.ControlPlane.GenericAPIServer, c.options.Kube.KubeletConfig.TLSClientConfig.CertFile); err != nil {
			return nil, err
		}
	}
	instance.ControlPlane.GenericAPIServer.Handler.GoRestfulContainer.Router(&routes{})
	o := c.options
	own, err := o.ReadSettings(o.Access, o.Kube.Admission.GenericAdmission)
	if err != nil {
		return nil, err
	}
	return &Server{
		Config:    c,
		api:       instance.ControlPlane.GenericAPIServer,
		identity:  newIdentity(c),
		settings:  own,
		publisher: feed.NewPublisher(own.Now(), c.inFlight),
		endpoints: endpoints.NewService(c.endpoints),
	}, nil
}

// Run implements service.Server.
func (s *Server) Run(ctx context.Context, ports *service.Ports) error {
	health := s.api.Handler.NonGoRestfulMux
	o := s.options.ServerRun
	grace := o.ShutdownDelayDuration + o.ShutdownWatchTerminationGracePeriod
	prepared := s.api.PrepareRun()
	run := func(ctx context.Context) error { return runUntilStopped(ctx, prepared.RunWithContext, health, grace) }
	ports.Probes.Serve(health)
	serves := catalogOf(s.api.ListedPaths(), version.Get().GitVersion, utilfeature.DefaultMutableFeatureGate)
	s.served.Set(serves)
	if ports.GRPC == nil {
		return run(ctx)
	}
	s.publisher.SetCatalog(serves)
	go s.settings.Follow(ctx, s.publisher.SetSettings)
	if file := s.options.Kube.Authentication.AuthenticationConfigFile; file != "" {
		go s.dependencies.FollowIssuers(ctx, file)
	}
	server := s.newGRPC()
	readiness := feed.NewReadiness(health, s.reportReadiness(server.Health), s.inFlight.Arrived)
	ports.Probes.Serve(readiness)
	go readiness.Follow(ctx)
	return rpc.Beside{
		API:      run,
		Server:   server,
		Listener: ports.GRPC,
		// Aggregators then send their requests, and their questions about tokens, to another replica.
		Drain: func() {
			s.publisher.Drain()
			s.identity.Stop()
		},
		Stop: func() {
			s.publisher.Stop()
			s.endpoints.Stop()
		},
	}.Run(ctx)
}

// reportReadiness returns a function that reports failing checks to aggregators. A replica that is not ready may have missed changes, so it
// authenticates no tokens.
func (s *Server) reportReadiness(health *health.Server) func(failing []string) {
	settle := sync.OnceFunc(s.informers.Settle)
	return func(failing []string) {
		serving := healthv1.HealthCheckResponse_NOT_SERVING
		if len(failing) == 0 {
			settle()
			serving = healthv1.HealthCheckResponse_SERVING
		}
		health.SetServingStatus("", serving)
		s.identity.SetReady(failing)
		s.publisher.SetReady(failing)
	}
}

// newGRPC returns the server for aggregators.
func (s *Server) newGRPC() *rpc.Server {
	server := rpc.NewServer(&s.options.ServiceTrust, []string{trust.Aggregator}, s.kube.ControlPlane.Generic.TracerProvider)
	s.identity.Register(server)
	s.publisher.Register(server)
	s.endpoints.Register(server)
	return server
}

func newIdentity(c *Config) *identity.Service {
	authentication := c.kube.ControlPlane.Generic.Authentication
	return identity.NewService(identity.Config{
		Authenticator:    authentication.Authenticator,
		APIAudiences:     authentication.APIAudiences,
		Dependencies:     c.dependencies,
		WebhookFreshness: c.webhookFreshness,
	})
}

func newInstance(config *controlplane.Config, port int) (*controlplane.Instance, error) {
	restore := advertisePort(config.ControlPlane.Generic.SecureServing, port)
	defer restore()

	// Unknown paths get 503 until all paths are known, and 404 afterwards. Without this handler, they would get 404 from the start, and
	// controllers would conclude that kinds do not exist.
	notFound := notfoundhandler.New(config.ControlPlane.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	return config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
}
