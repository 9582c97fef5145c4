// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs the aggregator. kube-aggregator's own server cannot be used as it is: it
// proxies by one connection per APIService, and delegates in process. Its parts are composed here
// around another proxy.
package server

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kube-aggregator/pkg/apiserver"

	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/discovery"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/health"
	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
	"github.com/tripod-k8s/tripod/services/aggregator/quickmetrics"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// Server is the aggregator before it serves.
type Server struct {
	*Config
	api               *genericapiserver.GenericAPIServer
	health            *health.Handler
	aggregatedServers *aggregatedServers
	watches           *routedWatches
}

// New builds the server.
func New(c *Config) (*Server, error) {
	stop := newShutdown(c.generic.ShutdownWatchTerminationGracePeriod, c.generic.DrainedNotify())
	s := &Server{Config: c, health: c.newHealth(), watches: &routedWatches{table: c.table}}
	stop.routed = s.watches
	c.buildHandlerChain(s.health, stop)
	// Some clients wait for /healthz, which in kube-apiserver means that all of it has started.
	for _, b := range c.backends.required() {
		c.generic.AddHealthzChecks(readyOnce(b.Backend))
	}
	c.generic.AddHealthzChecks(c.identity)
	notFound := notfoundhandler.New(c.generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	var err error
	s.api, err = c.generic.Complete().New("tripod-aggregator", genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, err
	}
	if s.aggregatedServers, err = c.newAggregatedServers(); err != nil {
		return nil, err
	}
	return s, s.install(stop)
}

// buildHandlerChain has the server answer requests by its chains.
func (c *Config) buildHandlerChain(health *health.Handler, stop *shutdown) {
	serializer := c.generic.Serializer
	forwarders, additional := map[routing.Owner]http.Handler{}, map[routing.Owner]bool{}
	endings := proxy.NewEndings()
	for _, b := range c.backends {
		await := b.discovery.Await
		if b == c.core {
			await = nil
		}
		owner, forwarder := routing.Owner(b.Name()), proxy.NewForwarder(b.Name(), c.traced(b), c.memory, endings, serializer, await)
		if additional[owner] = b.ofOthers(); additional[owner] {
			forwarder.Decide(c.generic.Authorization.Authorizer, authorizer.AuthorizerFunc(c.rights.Authorize))
		}
		if owner == routing.Core || owner.ServesCustomResources() {
			forwarder.Measure()
		}
		forwarders[owner] = forwarder
	}
	chains := &chains{
		table: c.table, policy: c.policy, webhooks: c.webhooks, stop: stop, traces: c.traces(),
		clients: c.clients, memory: c.memory,
		answerTimeout: c.generic.RequestTimeout + answerSlack, forwarders: forwarders, additional: additional,
	}
	c.generic.BuildHandlerChainFunc = func(own http.Handler, config *genericapiserver.Config) http.Handler {
		return chains.build(refuseUnknownServices(health.Wrap(quickmetrics.Wrap(own)), c.table.Backends(), serializer), config)
	}
}

// install adds handlers, controllers and checks to the generic server.
func (s *Server) install(stop *shutdown) error {
	for _, install := range []func() error{
		func() error { return s.installShutdown(stop) },
		s.installStorage, s.installDiscovery, s.installRegistration, s.installBackends, s.installAPIServices, s.installAvailability,
		s.installIdentity, s.installReadiness,
	} {
		if err := install(); err != nil {
			return err
		}
	}
	s.run("check-third-parties", func(ctx context.Context) { go s.aggregatedServers.directory.Run(ctx) })
	s.run("start-kube-aggregator-informers", func(ctx context.Context) {
		s.registered.informers.Start(ctx.Done())
		s.generic.SharedInformerFactory.Start(ctx.Done())
	})
	return nil
}

// Run implements service.Server.
func (s *Server) Run(ctx context.Context, ports *service.Ports) error {
	prepared := s.api.PrepareRun()
	ports.Probes.Serve(s.health.Wrap(s.api.Handler.NonGoRestfulMux))
	return prepared.RunWithContext(ctx)
}

// run adds a hook that starts something after the server listens.
func (s *Server) run(name string, start func(context.Context)) {
	s.api.AddPostStartHookOrDie(name, func(hook genericapiserver.PostStartHookContext) error {
		start(hook.Context)
		return nil
	})
}

// installDiscovery merges the discovery documents of the backends, and serves them and the older forms.
func (s *Server) installDiscovery() error {
	merged := s.api.AggregatedDiscoveryGroupManager
	merged.WithSource(discoveryendpoint.BuiltinSource).SetGroupVersionPriority(
		apiserver.APIRegistrationGroupVersion, apiserver.APIRegistrationGroupPriority, 0)
	s.run("merge-discovery", func(ctx context.Context) {
		for _, b := range s.backends {
			go b.discovery.Run(ctx)
		}
	})

	serializer := s.generic.Serializer
	notFound := notfoundhandler.New(serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	legacy := discovery.NewLegacy(s.registered.services.Lister(), serializer, served, notFound, s.registered.registrar.Serves)
	mux := s.api.Handler.NonGoRestfulMux
	aggregated := discoveryendpoint.WrapAggregatedDiscoveryToHandler(legacy, merged, s.api.PeerAggregatedDiscoveryManager)
	mux.Handle("/apis", s.untilDiscovered(aggregated))
	mux.UnlistedHandlePrefix("/apis/", legacy)
	paths := &index{
		own:      s.api.Handler.ListedPaths,
		services: s.registered.services.Lister(),
		backends: s.backends,
		table:    s.table,
	}
	mux.UnlistedHandle("/", paths)
	mux.UnlistedHandle("/index.html", paths)
	return nil
}

// installShutdown makes a shutdown begin with what clients have to know of it.
func (s *Server) installShutdown(stop *shutdown) error {
	advertised, err := s.installAdvertising()
	if err != nil {
		return err
	}
	if s.shared != nil {
		context.AfterFunc(stop.leaving, s.shared.Leave)
	}
	return s.api.AddPreShutdownHook("move-connections", func() error {
		withdraw(advertised)
		stop.begin(s.api.ShutdownDelayDuration)
		return nil
	})
}

// installIdentity follows core, which knows whose tokens they are.
func (s *Server) installIdentity() error {
	s.run("follow-core", func(ctx context.Context) { go s.identity.Run(ctx) })
	return s.identity.RegisterMetrics(legacyregistry.Register, legacyregistry.CustomRegister)
}

// installReadiness makes the server ready only when it knows enough not to mislead clients.
func (s *Server) installReadiness() error {
	checks := []healthz.HealthChecker{s.identity, s.agreedOnce()}
	for _, b := range s.backends.required() {
		checks = append(checks, readyOnce(b.Backend), seenOnce(b))
	}
	if s.shared != nil {
		checks = append(checks, healthz.NamedCheck(sharedPortCheck, func(*http.Request) error { return s.shared.Joined() }))
	}
	return s.api.AddReadyzChecks(checks...)
}
