// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs extensions: the CRD server of kube-apiserver as an API server of its own.
package server

import (
	"context"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/feed"
	"github.com/tripod-k8s/tripod/internal/hop/link"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/settings"
	"github.com/tripod-k8s/tripod/internal/storage/etcdready"
	"github.com/tripod-k8s/tripod/services/extensions/catalog"
	"github.com/tripod-k8s/tripod/services/extensions/options"
)

// Run serves until the context ends, and then shuts down as kube-apiserver does.
func Run(ctx context.Context, o *options.Completed) error {
	klog.InfoS("Starting extensions", "version", service.Version, "kubernetes", version.Get().GitVersion)

	probing, err := service.StartProbes(&o.Probes, "etcd")
	if err != nil {
		return err
	}
	listener, err := o.GRPC.Listen()
	if err != nil {
		return err
	}
	// Behind an egress proxy, etcd is waited for as kube-apiserver does it.
	if o.EgressSelector.ConfigFile == "" {
		if err := etcdready.Wait(ctx, o.Etcd.StorageConfig, o.SecureServing.SecureServingOptions); err != nil {
			return err
		}
	}
	others := &links{
		core:       link.New(coreService, o.Core, o.ServiceTrust),
		asked:      link.NewImpatient(coreService, o.Core, o.ServiceTrust),
		aggregator: link.NewAggregator(o.Neighbours.Aggregator, o.ServiceTrust),
		served:     newServed(),
	}
	if o.BackendsFile != "" {
		go addresses.WatchBackends(ctx, o.BackendsFile, o.Backends, others.follow)
	}
	config, err := newConfig(ctx, o, others)
	if err != nil {
		return err
	}
	counter := &feed.Counter{}
	counter.ApplyTo(&config.GenericConfig.Config)
	server, err := newServer(config)
	if err != nil {
		return err
	}
	if err := server.GenericAPIServer.AddReadyzChecks(others.core); err != nil {
		return err
	}
	prepared := server.GenericAPIServer.PrepareRun()
	probing.Serve(server.GenericAPIServer.Handler.NonGoRestfulMux)

	publisher := publisher{Publisher: feed.NewPublisher(counter.InFlight), served: others.served}
	definitions := server.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer()
	if err := catalog.Follow(definitions, version.Get().GitVersion, publisher); err != nil {
		return err
	}
	if listener == nil {
		return prepared.RunWithContext(ctx)
	}
	grpc := rpc.NewServer(&o.ServiceTrust, []string{trust.Aggregator}, config.GenericConfig.TracerProvider)
	publisher.SetSettings(settings.Of(o.ServerRun.ComponentGlobalsRegistry, o.APIEnablement.RuntimeConfig))
	publisher.Register(grpc)
	grpc.Health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	go publisher.FollowReadiness(ctx, server.GenericAPIServer.Handler.NonGoRestfulMux, config.GenericConfig.SharedInformerFactory.(*service.Informers).Settle)
	return rpc.Beside{
		API:      prepared.RunWithContext,
		Server:   grpc,
		Listener: listener,
		Drain:    publisher.Drain,
		Stop:     publisher.Stop,
	}.Run(ctx)
}

// follow tells where the other services are now.
func (l *links) follow(backends *addresses.Backends) {
	l.aggregator.FollowAggregator(backends)
	servers, err := options.CoreIn(backends)
	if err != nil {
		klog.ErrorS(err, "Core stays where it was")
		return
	}
	l.core.SetServers(servers)
	l.asked.SetServers(servers)
}

func newServer(config *apiextensionsapiserver.Config) (*apiextensionsapiserver.CustomResourceDefinitions, error) {
	// Paths that nobody serves are 404 only once all CustomResourceDefinitions are known, and 503 before.
	notFound := notfoundhandler.New(config.GenericConfig.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	server, err := config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, err
	}
	return server, installRootDiscovery(server.GenericAPIServer)
}
