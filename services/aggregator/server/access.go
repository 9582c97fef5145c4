// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/path"
	kubeapiserveradmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	"github.com/tripod-k8s/tripod/base/hop/rpc"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/authn"
	"github.com/tripod-k8s/tripod/services/aggregator/authn/tokens"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

func (c *Config) applyAuthentication() error {
	o, generic := c.options.Authentication, &c.generic.Config
	c.identity = tokens.New(tokens.Config{
		Addresses: c.core.grpcAddresses, Spare: c.core.spareAtGRPC,
		Dial: func(address string) (follow.Conn, error) {
			return rpc.Dial(address, upstream.Core, &c.options.ServiceTrust, generic.TracerProvider)
		},
		Grace: c.options.IdentityGrace,
	})
	auth := authn.Config{Services: c.senders, Tokens: c.identity}

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

// healthPaths can be read before policy is known: a client that waits for this server or restarts it asks there. They are
// those that kube-apiserver's system:public-info-viewer opens to all users.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// applyAuthorization authorizes what the aggregator serves itself and what it sends to aggregated API
// servers. Requests for core and extensions are authorized there.
func (c *Config) applyAuthorization(ctx context.Context) error {
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
	c.webhooks = newWebhookCalls(
		c.generic.SharedInformerFactory, &manifestWebhooks{next: kubeapiserveradmission.NewPluginInitializer()}, c.backends.conversion)
	c.rights = trust.NewAuthorizer(trust.Aggregator, list.Rights())
	c.generic.Authorization.Authorizer = trust.Around([]trust.Unconditional{c.rights, c.webhooks, c.policy.UntilSynced(health)}, c.policy)
	return nil
}
