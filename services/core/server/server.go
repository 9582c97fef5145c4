// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs core: the control plane of kube-apiserver without the CRD server before it and the aggregator
// around it, and what aggregators ask and hear of it.
package server

import (
	"context"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controlplane"

	"github.com/tripod-k8s/tripod/internal/hop/feed"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/settings"

	"github.com/tripod-k8s/tripod/services/core/endpoints"
	"github.com/tripod-k8s/tripod/services/core/identity"
	"github.com/tripod-k8s/tripod/services/core/options"
)

// Run serves until the context ends, and then shuts down as kube-apiserver does.
func Run(ctx context.Context, o *options.Completed) error {
	klog.InfoS("Starting core", "version", service.Version, "kubernetes", version.Get().GitVersion)

	probing, err := service.StartProbes(&o.Probes, "etcd")
	if err != nil {
		return err
	}
	listener, err := o.GRPC.Listen()
	if err != nil {
		return err
	}
	config, err := newConfig(ctx, o)
	if err != nil {
		return err
	}
	counter := &feed.Counter{}
	counter.ApplyTo(config.ControlPlane.Generic)
	kept, err := endpoints.Apply(config.Config, o.AdvertisePort)
	if err != nil {
		return err
	}
	instance, err := newInstance(config.Config, o.AdvertisePort)
	if err != nil {
		return err
	}
	generic := instance.ControlPlane.GenericAPIServer
	prepared := generic.PrepareRun()
	probing.Serve(generic.Handler.NonGoRestfulMux)

	serves := catalogOf(generic.ListedPaths(), version.Get().GitVersion, utilfeature.DefaultMutableFeatureGate)
	config.served.Set(serves)
	if listener == nil {
		return prepared.RunWithContext(ctx)
	}
	authenticates := newIdentity(config)
	publisher := feed.NewPublisher(counter.InFlight)
	publisher.SetCatalog(serves)
	publisher.SetSettings(settings.Of(o.ServerRun.ComponentGlobalsRegistry, o.APIEnablement.RuntimeConfig))
	server := rpc.NewServer(&o.ServiceTrust, []string{trust.Aggregator}, config.ControlPlane.Generic.TracerProvider)
	authenticates.Register(server)
	publisher.Register(server)
	advertises := endpoints.NewService(kept)
	advertises.Register(server)
	go publisher.FollowReadiness(ctx, generic.Handler.NonGoRestfulMux, config.informers.Settle)
	go func() {
		if authenticates.WaitReady(ctx) {
			server.Health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
		}
	}()
	return rpc.Beside{
		API:      prepared.RunWithContext,
		Server:   server,
		Listener: listener,
		// Aggregators move their requests, and ask another replica about tokens.
		Drain: func() {
			publisher.Drain()
			authenticates.Stop()
		},
		Stop: func() {
			publisher.Stop()
			advertises.Stop()
		},
	}.Run(ctx)
}

func newIdentity(c *config) *identity.Service {
	authentication := c.ControlPlane.Generic.Authentication
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

	// Paths that nobody serves are 404 only once all paths are known, and 503 before. An empty delegate without this
	// handler would answer 404 from the start, and controllers would take kinds for gone.
	notFound := notfoundhandler.New(config.ControlPlane.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	return config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
}
