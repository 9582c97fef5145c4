// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authn finds out who sent a request: by client certificate or by the headers of
// an authenticating proxy on its own, by bearer token with core's help.
package authn

import (
	cryptox509 "crypto/x509"
	"net/http"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	unionauth "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/tripod-k8s/tripod/base/hop/clientcert"
)

// Config are the ways of authentication that are in use. Nil ones are not.
type Config struct {
	// Services knows the backends, which come first: what they are does not depend on anything a client may send.
	Services      authenticator.Request
	ClientCA      dynamiccertificates.CAContentProvider
	RequestHeader *authenticatorfactory.RequestHeaderConfig
	Anonymous     *apiserver.AnonymousAuthConfig
	// Tokens asks core about bearer tokens.
	Tokens authenticator.Token
}

// New returns the authenticator, in the order of kube-apiserver's: proxy headers, client
// certificate, bearer token, anonymous.
func (c Config) New() authenticator.Request {
	var requests []authenticator.Request
	if c.Services != nil {
		requests = append(requests, c.Services)
	}
	if h := c.RequestHeader; h != nil {
		headers := headerrequest.NewDynamic(h.UsernameHeaders, h.UIDHeaders, h.GroupHeaders, h.ExtraHeaderPrefixes)
		requests = append(requests, clientcert.NewVerifier(h.CAContentProvider.VerifyOptions, h.AllowedClientNames, headers))
	}
	if c.ClientCA != nil {
		requests = append(requests, clientcert.NewAuthenticator(c.ClientCA.VerifyOptions, x509.UserConversionFunc(certificateUser)))
	}
	requests = append(requests, bearertoken.New(c.Tokens), websocket.NewProtocolAuthenticator(c.Tokens))

	authenticated := group.NewAuthenticatedGroupAdder(unionauth.New(requests...))
	if c.Anonymous == nil || !c.Anonymous.Enabled {
		return authenticated
	}
	return unionauth.NewFailOnError(authenticated, anonymous.NewAuthenticator(c.Anonymous.Conditions))
}

// certificateUser is the user that a certificate names, already in the group of authenticated users: a connection's user
// is made once and used for all its requests.
func certificateUser(chain []*cryptox509.Certificate) (*authenticator.Response, bool, error) {
	response, ok, err := x509.CommonNameUserConversion(chain)
	if err != nil || !ok {
		return nil, ok, err
	}
	named := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return response, true, nil })
	return group.NewAuthenticatedGroupAdder(named).AuthenticateRequest(nil)
}
