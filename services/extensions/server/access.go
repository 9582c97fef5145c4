// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/clientcert"
	"github.com/tripod-k8s/tripod/services/extensions/options"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// applyAccess sets up who may do what: users come from the aggregator, and policy from core. It is in the handler chain
// and, by config, in the CEL variable "authorizer" of admission policies. The loopback clients of this server are in
// system:masters, which every policy allows everything.
func applyAccess(ctx context.Context, o *options.Completed, config *genericapiserver.Config, core *rest.Config) error {
	if err := applyDirectClients(o, config); err != nil {
		return err
	}
	decides, err := policy.New(ctx, o.Authorization, core, config.APIServerID, config.EgressSelector)
	if err != nil {
		return err
	}
	if err := decides.ApplyTo(config); err != nil {
		return err
	}
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return decides.Gate(build(handler, c), c)
	}
	return o.ApplyTrust(config, o.Authorization.AlwaysAllow())
}

// applyDirectClients sets up how clients that do not come through the aggregator are known, if there may be any.
func applyDirectClients(o *options.Completed, config *genericapiserver.Config) error {
	ca, err := o.ClientCert.GetClientCAContentProvider()
	if err != nil {
		return fmt.Errorf("--client-ca-file: %w", err)
	}
	if ca == nil || !o.AllowDirectClients {
		return nil
	}
	config.Authentication.Authenticator = group.NewAuthenticatedGroupAdder(
		clientcert.NewAuthenticator(ca.VerifyOptions, x509.CommonNameUserConversion))
	return config.Authentication.ApplyClientCert(ca, config.SecureServing)
}
