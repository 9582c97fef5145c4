// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package authn

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/aggregator/authn/tokens"
	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
)

// While core cannot be asked about a token, the answer is 503 and not 401: a client must not take
// its good token for a bad one.

// IsOutage reports whether it could not be found out who sent a request, because core could not be asked. The error is
// that of an authenticator.
func IsOutage(err error) bool {
	var unavailable *tokens.UnavailableError
	if errors.As(err, &unavailable) {
		return true
	}
	// What the ways of authentication say together cannot be looked into by errors.As.
	if list, ok := err.(interface{ Errors() []error }); ok {
		for _, e := range list.Errors() {
			if IsOutage(e) {
				return true
			}
		}
	}
	return false
}

// outcome is what an authenticator said about a request.
type outcome struct {
	known    bool
	response *authenticator.Response
	ok       bool
	err      error
}

type outcomeKey struct{}

func outcomeFrom(ctx context.Context) *outcome {
	o, _ := ctx.Value(outcomeKey{}).(*outcome)
	return o
}

// WithOutcome makes room in the request's context for what Once finds out.
func WithOutcome(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), outcomeKey{}, &outcome{})))
	})
}

// Once returns an authenticator that asks another once for each request inside of WithOutcome, and then says the same
// again: what is asked of core cannot be asked twice with the same answer, and authenticators take from a request what
// they have read.
func Once(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		o := outcomeFrom(req.Context())
		if o == nil {
			return next.AuthenticateRequest(req)
		}
		if !o.known {
			o.response, o.ok, o.err = next.AuthenticateRequest(req)
			o.known = true
		}
		return o.response, o.ok, o.err
	})
}

// FailedHandler answers requests whose sender could not be authenticated by Once: 503 during an outage, else what
// unauthorized answers.
func FailedHandler(s runtime.NegotiatedSerializer, unauthorized http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if o := outcomeFrom(req.Context()); o != nil && IsOutage(o.err) {
			answerOutage(s, w, req)
			return
		}
		unauthorized.ServeHTTP(w, req)
	})
}

// RejectDuringOutage answers 503 in front of a handler chain that would answer 401. Handlers between them know the sender. The authenticator is
// that of the chain, and a Once.
func RejectDuringOutage(next http.Handler, auth authenticator.Request, s runtime.NegotiatedSerializer) http.Handler {
	return WithOutcome(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sender, ok, err := auth.AuthenticateRequest(req)
		if IsOutage(err) {
			answerOutage(s, w, req)
			return
		}
		if err == nil && ok {
			req = req.WithContext(request.WithUser(req.Context(), sender.User))
		}
		next.ServeHTTP(w, req)
	}))
}

func answerOutage(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request) {
	proxy.Unavailable(s, w, req, "the token cannot be checked while core is not available")
}
