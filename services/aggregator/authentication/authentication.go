// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authentication finds out who sent a request: by client certificate or by the headers of
// an authenticating proxy on its own, by bearer token with core's help.
package authentication

import (
	cryptox509 "crypto/x509"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
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
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	webhooktoken "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/tripod-k8s/tripod/internal/clientcert"
)

const (
	// tokenCacheTTL is how long core's answer about a token holds, the value of kube-apiserver's own cache.
	tokenCacheTTL = 10 * time.Second
	// tokenReviewTimeout bounds one question to core.
	tokenReviewTimeout = 10 * time.Second
)

// tokenReviewBackoff retries a question that got no answer while core restarts.
var tokenReviewBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}

// Config are the ways of authentication that are in use. Nil ones are not.
type Config struct {
	ClientCA      dynamiccertificates.CAContentProvider
	RequestHeader *authenticatorfactory.RequestHeaderConfig
	Anonymous     *apiserver.AnonymousAuthConfig
	// Tokens is the client through which core is asked about tokens.
	Tokens authenticationv1client.AuthenticationV1Interface
}

// New returns the authenticator, in the order of kube-apiserver's: proxy headers, client
// certificate, bearer token, anonymous.
func (c Config) New() (authenticator.Request, error) {
	var requests []authenticator.Request
	if h := c.RequestHeader; h != nil {
		headers := headerrequest.NewDynamic(h.UsernameHeaders, h.UIDHeaders, h.GroupHeaders, h.ExtraHeaderPrefixes)
		requests = append(requests, clientcert.NewVerifier(h.CAContentProvider.VerifyOptions, h.AllowedClientNames, headers))
	}
	if c.ClientCA != nil {
		requests = append(requests, clientcert.NewAuthenticator(c.ClientCA.VerifyOptions, x509.UserConversionFunc(certificateUser)))
	}
	reviews, err := webhooktoken.NewFromInterface(c.Tokens, nil, tokenReviewBackoff, tokenReviewTimeout, webhooktoken.AuthenticatorMetrics{
		RecordRequestTotal:   authenticatorfactory.RecordRequestTotal,
		RecordRequestLatency: authenticatorfactory.RecordRequestLatency,
	})
	if err != nil {
		return nil, fmt.Errorf("token authenticator: %w", err)
	}
	tokens := cache.New(outageRecorder{reviews}, false, tokenCacheTTL, tokenCacheTTL)
	requests = append(requests, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))

	authenticated := group.NewAuthenticatedGroupAdder(unionauth.New(requests...))
	if c.Anonymous == nil || !c.Anonymous.Enabled {
		return authenticated, nil
	}
	return unionauth.NewFailOnError(authenticated, anonymous.NewAuthenticator(c.Anonymous.Conditions)), nil
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
