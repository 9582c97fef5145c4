// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs the aggregator. kube-aggregator's own server cannot be used as it is: it
// proxies by one connection per APIService, and delegates in process. Its parts are composed here
// around another proxy.
package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	apiserviceinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	apiservicerest "k8s.io/kube-aggregator/pkg/registry/apiservice/rest"

	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/discovery"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/health"
	"github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/aggregated"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// Run serves until the context ends, and then shuts down as kube-apiserver does.
func Run(ctx context.Context, o *options.Completed) error {
	klog.InfoS("Starting aggregator", "version", service.Version, "kubernetes", version.Get().GitVersion)
	probing, err := service.StartProbes(&o.Probes, "etcd")
	if err != nil {
		return err
	}
	config, err := newConfig(ctx, o)
	if err != nil {
		return err
	}
	s, err := newServer(config)
	if err != nil {
		return err
	}
	if err := s.install(); err != nil {
		return err
	}
	prepared := s.generic.PrepareRun()
	probing.Serve(s.health.Wrap(s.generic.Handler.NonGoRestfulMux))
	return prepared.RunWithContext(ctx)
}

// server is the aggregator between its construction and PrepareRun.
type server struct {
	config  *config
	generic *genericapiserver.GenericAPIServer
	table   *routing.Table
	// toExtensions forwards to extensions.
	toExtensions *proxy.Forwarder

	client    clientset.Interface
	services  apiserviceinformers.APIServiceInformer
	informers aggregatorinformers.SharedInformerFactory

	// coreDiscovery and extensionsDiscovery know what the backends serve.
	coreDiscovery, extensionsDiscovery *discovery.Source
	registrar                          *apiservices.Registrar
	thirdParty                         proxy.ThirdPartyConfig
	directory                          *aggregated.Directory
	// followers follow the feeds of core and extensions.
	followers []*feeds.Follower
	health    *health.Handler
	// proxyClientCert is nil when none is configured.
	proxyClientCert *dynamiccertificates.DynamicCertKeyPairContent
	// versions are the served versions of the aggregator's own group.
	versions []string
}

// resyncInterval is how often every APIService is looked at again without a change.
const resyncInterval = 5 * time.Minute

func newServer(c *config) (*server, error) {
	s := &server{config: c, table: routing.NewTable(apiservices.Builtin)}
	serializer := c.generic.Serializer
	s.toExtensions = proxy.NewForwarder(upstream.Extensions, c.traced(c.extensions), serializer)
	stop := newShutdown(c.generic.ShutdownWatchTerminationGracePeriod, c.generic.DrainedNotify())
	s.health = s.newHealth()
	build := buildChain(s.table, c.policy, c.webhooks, c.traces(), stop,
		proxy.NewForwarder(upstream.Core, c.traced(c.core), serializer), s.toExtensions)
	c.generic.BuildHandlerChainFunc = func(own http.Handler, config *genericapiserver.Config) http.Handler {
		return build(refuseUnknownServices(s.health.Wrap(own), serializer), config)
	}

	// Some clients wait for /healthz, which in kube-apiserver means that all of it has started.
	c.generic.AddHealthzChecks(readyOnce(c.core.Backend), readyOnce(c.extensions.Backend), c.identity)
	notFound := notfoundhandler.New(serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	var err error
	s.generic, err = c.generic.Complete().New("tripod-aggregator", genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, err
	}
	advertised, err := s.installAdvertising()
	if err != nil {
		return nil, err
	}
	if err := s.generic.AddPreShutdownHook("move-connections", func() error {
		withdraw(advertised)
		stop.begin(s.generic.ShutdownDelayDuration)
		return nil
	}); err != nil {
		return nil, err
	}
	group := apiservicerest.NewRESTStorage(c.generic.MergedResourceConfig, c.generic.RESTOptionsGetter, false)
	if err := s.generic.InstallAPIGroup(&group); err != nil {
		return nil, err
	}
	if _, enabled := group.VersionedResourcesStorageMap[apiregistrationv1.SchemeGroupVersion.Version]; !enabled {
		return nil, fmt.Errorf("--runtime-config: %s cannot be disabled", apiregistrationv1.SchemeGroupVersion)
	}
	s.versions = []string{apiregistrationv1.SchemeGroupVersion.Version}

	if s.client, err = clientset.NewForConfig(s.generic.LoopbackClientConfig); err != nil {
		return nil, err
	}
	s.informers = aggregatorinformers.NewSharedInformerFactory(s.client, resyncInterval)
	s.services = s.informers.Apiregistration().V1().APIServices()
	return s, nil
}

// install adds handlers, controllers and checks to the generic server.
func (s *server) install() error {
	for _, install := range []func() error{
		s.configureThirdParties, s.installDiscovery, s.installRegistration, s.installFeeds, s.installAPIServices, s.installAvailability, s.installIdentity, s.installReadiness,
	} {
		if err := install(); err != nil {
			return err
		}
	}
	s.run("start-kube-aggregator-informers", func(ctx context.Context) {
		s.informers.Start(ctx.Done())
		s.config.generic.SharedInformerFactory.Start(ctx.Done())
	})
	s.run("probe-backends", func(ctx context.Context) {
		go s.config.core.Run(ctx)
		go s.config.extensions.Run(ctx)
	})
	return nil
}

// run adds a hook that starts something after the server listens.
func (s *server) run(name string, start func(context.Context)) {
	s.generic.AddPostStartHookOrDie(name, func(hook genericapiserver.PostStartHookContext) error {
		start(hook.Context)
		return nil
	})
}

// installDiscovery merges the discovery documents of the backends, and serves them and the older forms.
func (s *server) installDiscovery() error {
	merged := s.generic.AggregatedDiscoveryGroupManager
	merged.WithSource(discoveryendpoint.BuiltinSource).SetGroupVersionPriority(
		apiserver.APIRegistrationGroupVersion, apiserver.APIRegistrationGroupPriority, 0)
	s.coreDiscovery = discovery.NewSource(s.config.core.Backend, merged)
	s.extensionsDiscovery = discovery.NewSource(s.config.extensions.Backend, merged)
	s.config.groups.Store(new(func() bool { return s.coreDiscovery.Seen() && s.extensionsDiscovery.Seen() }))
	s.toExtensions.OnGroupVersion(s.extensionsDiscovery.Await)
	s.run("merge-discovery", func(ctx context.Context) {
		go s.coreDiscovery.Run(ctx)
		go s.extensionsDiscovery.Run(ctx)
	})

	serializer := s.config.generic.Serializer
	notFound := notfoundhandler.New(serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	legacy := discovery.NewLegacy(s.services.Lister(), serializer, s.versions, notFound)
	mux := s.generic.Handler.NonGoRestfulMux
	aggregated := discoveryendpoint.WrapAggregatedDiscoveryToHandler(legacy, merged, s.generic.PeerAggregatedDiscoveryManager)
	mux.Handle("/apis", s.untilSeen(aggregated))
	mux.UnlistedHandlePrefix("/apis/", legacy)
	paths := &index{
		own:      s.generic.Handler.ListedPaths,
		services: s.services.Lister(),
		backends: []http.RoundTripper{s.config.core.Own(), s.config.extensions.Own()},
		table:    s.table,
	}
	mux.UnlistedHandle("/", paths)
	mux.UnlistedHandle("/index.html", paths)
	return nil
}

// installRegistration registers the APIServices of the backends' group-versions.
func (s *server) installRegistration() error {
	controller := autoregister.NewAutoRegisterController(s.services, s.client.ApiregistrationV1())
	serviceForm := options.APIServiceForm(s.config.options.APIServiceForm) == options.FormService
	s.registrar = apiservices.NewRegistrar(controller, serviceForm)
	s.run("kube-apiserver-autoregistration", func(ctx context.Context) {
		go s.registrar.Run(ctx.Done())
	})
	check, err := s.registrar.ReadyzCheck(s.services.Informer())
	if err != nil {
		return err
	}
	return s.generic.AddBootSequenceHealthChecks(check)
}

// installIdentity follows core, which knows whose tokens they are.
func (s *server) installIdentity() error {
	s.run("follow-core", func(ctx context.Context) { go s.config.identity.Run(ctx) })
	return s.config.identity.RegisterMetrics(legacyregistry.Register, legacyregistry.CustomRegister)
}

// installReadiness makes the server ready only when it knows enough not to mislead clients.
func (s *server) installReadiness() error {
	return s.generic.AddReadyzChecks(
		readyOnce(s.config.core.Backend), seenOnce(upstream.Core, s.coreDiscovery), s.config.identity,
		readyOnce(s.config.extensions.Backend), seenOnce(upstream.Extensions, s.extensionsDiscovery), s.agreedOnce(),
	)
}
