// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs core: the control plane of kube-apiserver without the CRD server before it and the aggregator
// around it, and the identity service for aggregators.
package server

import (
	"context"
	"net"

	"golang.org/x/sync/errgroup"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controlplane"

	"github.com/tripod-k8s/tripod/internal/servicegrpc"
	"github.com/tripod-k8s/tripod/internal/servicetrust"
	tripodversion "github.com/tripod-k8s/tripod/internal/version"
	"github.com/tripod-k8s/tripod/services/core/identity"
	"github.com/tripod-k8s/tripod/services/core/options"
)

// Run serves until the context ends, and then shuts down as kube-apiserver does.
func Run(ctx context.Context, o *options.Completed) error {
	klog.InfoS("Starting core", "version", tripodversion.Version, "kubernetes", version.Get().GitVersion)

	probes, err := o.Probes.Start("etcd")
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
	instance, err := newInstance(config.Config, o.AdvertisePort)
	if err != nil {
		return err
	}
	generic := instance.ControlPlane.GenericAPIServer
	prepared := generic.PrepareRun()
	probes.Serve(generic.Handler.NonGoRestfulMux)

	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return prepared.RunWithContext(ctx) })
	if listener != nil {
		generic := config.ControlPlane.Generic
		service := identity.NewService(identity.Config{
			Authenticator:    generic.Authentication.Authenticator,
			APIAudiences:     generic.Authentication.APIAudiences,
			Dependencies:     config.dependencies,
			WebhookFreshness: config.webhookFreshness,
		})
		server := servicegrpc.NewServer(&o.ServiceTrust.Options, []string{servicetrust.Aggregator}, generic.TracerProvider)
		running.Go(func() error { return serveIdentity(ctx, server, service, listener) })
	}
	return running.Wait()
}

// serveIdentity serves until the context ends. It stops at once, before the API does: its callers have other replicas.
func serveIdentity(ctx context.Context, server *servicegrpc.Server, service *identity.Service, listener net.Listener) error {
	service.Register(server)
	go func() {
		if service.WaitReady(ctx) {
			server.Health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
		}
	}()
	defer context.AfterFunc(ctx, service.Stop)()
	return server.Serve(ctx, listener)
}

func newInstance(config *controlplane.Config, port int) (*controlplane.Instance, error) {
	restore := advertisePort(config.ControlPlane.Generic.SecureServing, port)
	defer restore()

	// Paths that nobody serves are 404 only once all paths are known, and 503 before. An empty delegate without this
	// handler would answer 404 from the start, and controllers would take kinds for gone.
	notFound := notfoundhandler.New(config.ControlPlane.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	return config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
}
