// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"net/http"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticatorunion "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server"

	"github.com/tripod-k8s/tripod/base/tuning/coalesce"
	"github.com/tripod-k8s/tripod/base/tuning/compress"
)

// BackendOptions are the options of a service that receives requests from the aggregator.
type BackendOptions struct {
	Options
	// AllowDirectClients admits clients that do not come through the aggregator. The service's own authenticators judge them.
	AllowDirectClients bool
	// RefuseAnonymous refuses clients without credentials, even if the aggregator admitted them. Services need it that allow every request, or
	// whose configuration forbids anonymous clients.
	RefuseAnonymous bool
	// Rights are what other services may do here. If nil, the service trusts the aggregator's decisions about their requests.
	Rights Rights
}

// ApplyTo makes the server trust the aggregator's envelopes. It refuses every other sender except other services and its own loopback
// client. It does four more things:
//
//   - It puts the rights of services in front of config's authorizer.
//   - It exempts services from queueing behind users.
//   - It makes the listener ask for certificates of the service CA. A client sends its certificate only if the server names the issuer as
//     acceptable.
//   - It compresses large lists (package compress).
//
// The authenticator of config stays as it is, because token reviews use it too.
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
	services := newStatedAuthorizer(self)
	if o.Rights != nil {
		services = NewAuthorizer(self, o.Rights)
	}
	config.Authorization.Authorizer = Around([]Unconditional{services}, config.Authorization.Authorizer)
	config.SecureServing.Listener = coalesce.Listener(config.SecureServing.Listener)
	config.TracerProvider = Traces(config.TracerProvider)
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(handler http.Handler, c *server.Config) http.Handler {
		own := *c
		own.Authentication = o.authentication(c)
		own.FlowControl = Fairness(c)
		senders.sessions.Ended = c.DrainedNotify()
		if c.FeatureGate.Enabled(features.APIResponseCompression) {
			handler = compress.Lists(handler)
		}
		return senders.withSender(coalesce.Answers(build(withServed(withoutAuditID(handler)), &own)))
	}
	return nil
}

// withoutAuditID removes the header in which the aggregator passes the audit filter the ID of a request. Otherwise nodes, pods and services
// behind the handler's proxy would see it.
func withoutAuditID(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Header.Del(auditinternal.HeaderAuditID)
		handler.ServeHTTP(w, req)
	})
}

// authentication returns how the server authenticates requests.
func (o *BackendOptions) authentication(c *server.Config) server.AuthenticationInfo {
	info := c.Authentication
	others := info.Authenticator // includes the loopback client's token
	if !o.AllowDirectClients || others == nil {
		loopback := server.AuthenticationInfo{Authenticator: authenticatorunion.New(), APIAudiences: info.APIAudiences}
		server.AuthorizeClientBearerToken(c.LoopbackClientConfig, &loopback, &c.Authorization)
		others = loopback.Authenticator
	}
	info.Authenticator = authenticatorunion.NewFailOnError(authenticator.RequestFunc(authenticate), others)
	return info
}
