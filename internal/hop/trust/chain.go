// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"net/http"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticatorunion "k8s.io/apiserver/pkg/authentication/request/union"
	authorizerunion "k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/server"

	"github.com/tripod-k8s/tripod/internal/tuning/coalesce"
)

// BackendOptions are the options of a service that the aggregator sends requests to.
type BackendOptions struct {
	Options
	// AllowDirectClients lets in clients that do not come through the aggregator, by the authenticators of the service.
	AllowDirectClients bool
	// RefuseAnonymous refuses clients without credentials, also those that the aggregator has let in. It is for services that allow everybody
	// everything, and for those that are told to know nobody anonymous.
	RefuseAnonymous bool
}

// ApplyTo makes the server believe what the aggregator says about the senders of requests, and let nobody else in but the
// other services and its own loopback client. It puts the rules for services in front of the authorizer that config has, exempts services from
// queueing behind users, and makes the listener ask for certificates of the service CA. (A client sends its certificate only if the server names its
// issuer as acceptable.)
//
// The authenticator of config stays what it is: others than the handler chain use it, for token reviews.
func (o *BackendOptions) ApplyTo(config *server.Config) error {
	senders, ca, err := o.senders()
	if err != nil {
		return err
	}
	senders.refuseAnonymous = o.RefuseAnonymous
	if err := config.Authentication.ApplyClientCert(ca, config.SecureServing); err != nil {
		return fmt.Errorf("--%s: %w", caFileFlag, err)
	}
	self, err := o.user()
	if err != nil {
		return err
	}
	config.Authorization.Authorizer = authorizerunion.New(NewAuthorizer(self), config.Authorization.Authorizer)
	config.SecureServing.Listener = coalesce.Listener(config.SecureServing.Listener)
	config.TracerProvider = Traces(config.TracerProvider)
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(handler http.Handler, c *server.Config) http.Handler {
		own := *c
		own.Authentication = o.authentication(c)
		own.FlowControl = Fairness(c)
		return senders.withSender(coalesce.Answers(build(withoutAuditID(handler), &own)))
	}
	return nil
}

// withoutAuditID takes away the header by which the aggregator has told the audit filter the ID of a request. Nodes, pods and services that the
// handler proxies to would see it.
func withoutAuditID(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Header.Del(auditinternal.HeaderAuditID)
		handler.ServeHTTP(w, req)
	})
}

// authentication returns the authentication of requests.
func (o *BackendOptions) authentication(c *server.Config) server.AuthenticationInfo {
	info := c.Authentication
	others := info.Authenticator // with the loopback client's token
	if !o.AllowDirectClients || others == nil {
		loopback := server.AuthenticationInfo{Authenticator: authenticatorunion.New(), APIAudiences: info.APIAudiences}
		server.AuthorizeClientBearerToken(c.LoopbackClientConfig, &loopback, &c.Authorization)
		others = loopback.Authenticator
	}
	info.Authenticator = authenticatorunion.NewFailOnError(authenticator.RequestFunc(authenticate), others)
	return info
}
