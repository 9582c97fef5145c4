// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/path"
	authorizerunion "k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
	"k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	generatedopenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	kubeapiserveradmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"

	"github.com/tripod-k8s/tripod/internal/admission/loopback"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/policy"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/auditlog"
	"github.com/tripod-k8s/tripod/internal/storage/etcdready"
	"github.com/tripod-k8s/tripod/internal/storage/watchresume"
	"github.com/tripod-k8s/tripod/services/aggregator/authn"
	"github.com/tripod-k8s/tripod/services/aggregator/authn/tokens"
	"github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// config is what the server is built from.
type config struct {
	options *options.Completed
	generic *genericapiserver.RecommendedConfig
	core     *located
	// extensions is the backend of CRDs and custom resources.
	extensions *located
	policy     *policy.Policy
	// identity asks core about tokens.
	identity *tokens.Client
	// services knows core and extensions by their certificates.
	services authenticator.Request
	// webhooks decides which webhooks services call by way of the aggregator.
	webhooks *webhookCalls
	// groups says whether all API groups are known, once there is a server.
	groups atomic.Pointer[func() bool]
}

// newConfig builds the configuration. It waits for etcd.
func newConfig(ctx context.Context, o *options.Completed) (*config, error) {
	if o.EgressSelector.ConfigFile == "" {
		if err := etcdready.Wait(ctx, o.Etcd.StorageConfig, o.SecureServing.SecureServingOptions); err != nil {
			return nil, err
		}
	}
	c := &config{options: o, generic: genericapiserver.NewRecommendedConfig(aggregatorscheme.Codecs)}
	var err error
	identity := upstream.Identity{CAFile: o.ServiceTrust.CAFile, CertFile: o.ServiceTrust.CertFile, KeyFile: o.ServiceTrust.KeyFile}
	if c.core, err = newLocated(upstream.Core, o.Backends.Core, identity); err != nil {
		return nil, err
	}
	if c.extensions, err = newLocated(upstream.Extensions, o.Backends.Extensions, identity); err != nil {
		return nil, err
	}
	if o.Replica != "" { // before the options, which tell it the collector of traces
		if c.generic.APIServerID, err = service.NewReplicaID("aggregator", o.Replica); err != nil {
			return nil, err
		}
	}
	client, err := kubernetes.NewForConfig(clientConfig(c.core.Backend))
	if err != nil {
		return nil, fmt.Errorf("client of core: %w", err)
	}
	c.generic.SharedInformerFactory = informers.NewSharedInformerFactory(client, 10*time.Minute)
	if err := c.applyOptions(client); err != nil {
		return nil, err
	}
	if err := c.serveServices(); err != nil {
		return nil, err
	}
	if err := c.applyAuthentication(); err != nil {
		return nil, err
	}
	if err := c.applyAuthorization(ctx); err != nil {
		return nil, err
	}
	return c, c.applyAdmission()
}

// knowsGroups reports whether all API groups are known.
func (c *config) knowsGroups() bool {
	known := c.groups.Load()
	return known != nil && (*known)()
}

// clientConfig returns the configuration of clients of a backend, in the aggregator's own name.
func clientConfig(b *upstream.Backend) *rest.Config {
	return &rest.Config{
		Host:      "https://" + trust.ServerName(b.Name()),
		Transport: b.Own(),
		UserAgent: "tripod-aggregator",
		QPS:       -1, // a user waits for the answer; core limits by priority and fairness
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
	}
}

func (c *config) applyOptions(client kubernetes.Interface) error {
	o, generic := c.options, &c.generic.Config
	for _, apply := range []func() error{
		func() error { return o.ServerRun.ApplyTo(generic) },
		func() error { return o.SecureServing.ApplyToConfig(generic) },
		func() error { return o.Features.ApplyTo(generic, client, c.generic.SharedInformerFactory) },
		func() error { return o.EgressSelector.ApplyTo(generic) },
		func() error { return o.Traces.ApplyTo(generic.EgressSelector, generic) },
		func() error { generic.TracerProvider = trust.Traces(generic.TracerProvider); return nil },
		func() error { return o.Audit.ApplyTo(generic) },
		func() error { auditlog.Apply(generic, o.AuditSocket, o.Audit); return nil },
		func() error {
			return o.APIEnablement.ApplyTo(generic, apiserver.DefaultAPIResourceConfigSource(), aggregatorscheme.Scheme)
		},
	} {
		if err := apply(); err != nil {
			return err
		}
	}
	if generic.EgressSelector != nil {
		o.Etcd.StorageConfig.Transport.EgressLookup = generic.EgressSelector.Lookup
	}
	o.Etcd.StorageConfig.Transport.TracerProvider = generic.TracerProvider
	if err := o.Etcd.ApplyTo(generic); err != nil {
		return err
	}
	watchresume.Apply(generic)
	o.Metrics.Apply()
	generic.LoopbackClientConfig.UserAgent = loopback.UserAgent()

	generic.Flagz = o.Flagz
	generic.LongRunningFunc = filters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"),
		sets.NewString("attach", "exec", "proxy", "log", "portforward"),
	)
	service.ApplyDocuments(generic, generatedopenapi.GetOpenAPIDefinitions)

	// The documents over all servers take the place of the aggregator's own.
	generic.SkipOpenAPIInstallation = true
	generic.EnableDiscovery = false
	generic.EnableIndex = false
	return nil
}

func (c *config) applyAuthentication() error {
	o, generic := c.options.Authentication, &c.generic.Config
	c.identity = tokens.New(tokens.Config{
		Addresses: c.core.grpcAddresses,
		Dial: func(address string) (tokens.Conn, error) {
			return rpc.Dial(address, upstream.Core, &c.options.ServiceTrust, generic.TracerProvider)
		},
		Grace: c.options.IdentityGrace,
	})
	auth := authn.Config{Services: c.services, Tokens: c.identity}

	clientCA, err := o.ClientCert.GetClientCAContentProvider()
	if err != nil {
		return fmt.Errorf("--client-ca-file: %w", err)
	}
	if clientCA != nil {
		if err := generic.Authentication.ApplyClientCert(clientCA, generic.SecureServing); err != nil {
			return fmt.Errorf("--client-ca-file: %w", err)
		}
		auth.ClientCA = clientCA
	}
	if auth.RequestHeader, err = o.RequestHeader.ToAuthenticationRequestHeaderConfig(); err != nil {
		return fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	if auth.RequestHeader != nil {
		generic.Authentication.RequestHeaderConfig = auth.RequestHeader
		if err := generic.Authentication.ApplyClientCert(auth.RequestHeader.CAContentProvider, generic.SecureServing); err != nil {
			return fmt.Errorf("--requestheader-client-ca-file: %w", err)
		}
	}
	if auth.Anonymous, err = o.Anonymous(); err != nil {
		return err
	}
	generic.Authentication.Authenticator = auth.New()
	return nil
}

// traces reports whether requests are traced.
func (c *config) traces() bool { return c.options.Traces.ConfigFile != "" }

// traced makes a trace go on in the backend, where requests are traced.
func (c *config) traced(transport http.RoundTripper) http.RoundTripper {
	if !c.traces() {
		return transport
	}
	return tracing.WrapperFor(c.generic.TracerProvider)(transport)
}

// healthPaths can be read before policy is known: whoever waits for this server or restarts it asks there. They are
// those that kube-apiserver's system:public-info-viewer opens to everybody.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// applyAuthorization authorizes what the aggregator serves itself and what it sends to third
// parties. Requests for core and extensions are authorized there.
func (c *config) applyAuthorization(ctx context.Context) error {
	var err error
	c.policy, err = policy.New(ctx, c.options.Authorization, clientConfig(c.core.Backend), c.generic.APIServerID, c.generic.EgressSelector)
	if err != nil {
		return err
	}
	if err := c.policy.ApplyTo(&c.generic.Config); err != nil {
		return err
	}
	health, err := path.NewAuthorizer(healthPaths)
	if err != nil {
		return err
	}
	c.webhooks = newWebhookCalls(c.generic.SharedInformerFactory, &manifestWebhooks{next: kubeapiserveradmission.NewPluginInitializer()})
	c.generic.Authorization.Authorizer = authorizerunion.New(
		trust.NewAuthorizer(trust.Aggregator), c.webhooks, c.policy.UntilSynced(health), c.policy)
	return nil
}
