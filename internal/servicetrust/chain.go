// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package servicetrust

import (
	"fmt"

	authenticatorunion "k8s.io/apiserver/pkg/authentication/request/union"
	authorizerunion "k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/server"
)

// ApplyTo puts the authentication and authorization of services in front of those that config has, which must be
// set already, and makes the listener ask for certificates of the service CA. (A client sends its certificate only if
// the server names its issuer as acceptable.)
func (o *Options) ApplyTo(config *server.Config) error {
	authenticator, ca, err := NewAuthenticator(o.CAFile)
	if err != nil {
		return fmt.Errorf("--%s: %w", caFileFlag, err)
	}
	if err := config.Authentication.ApplyClientCert(ca, config.SecureServing); err != nil {
		return fmt.Errorf("--%s: %w", caFileFlag, err)
	}
	config.Authentication.Authenticator = authenticatorunion.New(authenticator, config.Authentication.Authenticator)
	config.Authorization.Authorizer = authorizerunion.New(NewAuthorizer(), config.Authorization.Authorizer)
	return nil
}
