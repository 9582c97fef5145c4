// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
	"k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	generatedopenapi "k8s.io/kube-aggregator/pkg/generated/openapi"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/base/tuning/coalesce"
	"github.com/tripod-k8s/tripod/services/aggregator/authn/tokens"
	"github.com/tripod-k8s/tripod/services/aggregator/clients"
	"github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/sharedport"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// Config is what the aggregator is built from.
type Config struct {
	options *options.Completed
	generic *genericapiserver.RecommendedConfig

	// backends are core, extensions, and the others by name. core comes first: most of what several backends define alike is its own.
	backends backends
	// core is the one that is asked about tokens and policy, and extensions the one with custom resources.
	core, extensions *backend
	// settings are those of this aggregator, and comparison compares its configuration with that of the replicas of the backends.
	settings   *service.Settings
	comparison *feeds.Comparison
	// versions holds back replicas whose version of Kubernetes does not fit those of the others.
	versions *feeds.Versions
	// partitions are those of extensions.
	partitions partitions.Table
	// registered are the APIServices.
	registered *registered
	table      *routing.Table
	// memory is what requests in flight share.
	memory *requestmemory.Budget
	// clients are the connections of clients.
	clients *clients.Connections

	// identity asks core about tokens.
	identity *tokens.Client
	// senders knows the other services by their certificates.
	senders authenticator.Request
	policy  *policy.Policy
	// shared is the port that several aggregators have, or nil.
	shared *sharedport.Port
	// webhooks decides which webhooks services call by way of the aggregator.
	webhooks *webhookCalls
	// rights are those of services.
	rights trust.Unconditional
}

// NewConfig builds the configuration. Each step uses what those before it have made.
func NewConfig(ctx context.Context, o *options.Completed) (*Config, error) {
	c := &Config{
		options: o,
		generic: genericapiserver.NewRecommendedConfig(service.Codecs(aggregatorscheme.Scheme)),
		memory:  requestmemory.New(int64(o.RequestsMemoryMB) << 20),
	}
	c.clients = clients.New(int64(o.ConnectionsMemoryMB)<<20, c.memory)
	for _, step := range []func() error{
		c.locateBackends,
		c.applyOptions,
		c.newRegistered,
		c.followBackends,
		c.serveServices,
		c.applyAuthentication,
		func() error { return c.applyAuthorization(ctx) },
		c.applyAdmission,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// knowsGroups reports whether all API groups are known that every Tripod has.
func (c *Config) knowsGroups() bool {
	return !slices.ContainsFunc(c.backends.required(), func(b *backend) bool { return !b.discovery.Fetched() })
}

// clientConfig returns the configuration of clients of a backend, in the aggregator's own name.
func clientConfig(b *upstream.Backend) *rest.Config {
	return &rest.Config{
		Host:      "https://" + trust.ServerName(b.Name()),
		Transport: b.AsAggregator(),
		UserAgent: "tripod-aggregator",
		QPS:       -1, // a user waits for the answer; core limits by priority and fairness
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
	}
}

func (c *Config) applyOptions() error {
	client, err := kubernetes.NewForConfig(clientConfig(c.core.Backend))
	if err != nil {
		return fmt.Errorf("client of core: %w", err)
	}
	c.generic.SharedInformerFactory = informers.NewSharedInformerFactory(client, 10*time.Minute)
	if err := c.options.ApplyTo(c.generic, client, service.API{
		Resources:   apiserver.DefaultAPIResourceConfigSource(),
		Scheme:      aggregatorscheme.Scheme,
		Definitions: generatedopenapi.GetOpenAPIDefinitions,
		Documented:  aggregatorscheme.Scheme,
	}); err != nil {
		return err
	}
	listener := c.generic.SecureServing.Listener
	if address := c.options.SharedBindAddress; address != "" {
		c.shared = sharedport.New(listener, address)
		listener = c.shared
	}
	c.generic.SecureServing.Listener = coalesce.Listener(c.clients.Listen(listener))
	c.generic.TracerProvider = trust.Traces(c.generic.TracerProvider)
	// The documents over all servers take the place of the aggregator's own.
	c.generic.SkipOpenAPIInstallation = true
	c.generic.EnableDiscovery = false
	c.generic.EnableIndex = false
	return nil
}

// traces reports whether requests are traced.
func (c *Config) traces() bool { return c.options.Traces.ConfigFile != "" }

// traced makes a trace go on in the backend, where requests are traced.
func (c *Config) traced(transport http.RoundTripper) http.RoundTripper {
	if !c.traces() {
		return transport
	}
	return tracing.WrapperFor(c.generic.TracerProvider)(transport)
}
