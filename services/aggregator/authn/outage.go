// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package authn

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/aggregator/authn/tokens"
	"github.com/tripod-k8s/tripod/services/aggregator/status"
)

// While core cannot be asked about a token, the answer is 503 and not 401: a client must not take
// its good token for a bad one.

// IsOutage reports whether it could not be found out who sent a request, because core could not be asked. The error is
// that of an authenticator.
func IsOutage(err error) bool {
	return contains(err, func(err error) bool {
		var unavailable *tokens.UnavailableError
		return errors.As(err, &unavailable)
	})
}

// contains reports whether one of the ways of authentication failed so. errors.As cannot look into the list of their errors.
func contains(err error, is func(error) bool) bool {
	if is(err) {
		return true
	}
	list, ok := err.(interface{ Errors() []error })
	return ok && slices.ContainsFunc(list.Errors(), func(e error) bool { return contains(e, is) })
}

// outcome is the answer of an authenticator about a request.
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
			answerOutage(s, w, req, o.err)
			return
		}
		unauthorized.ServeHTTP(w, req)
	})
}

// RejectDuringOutage answers 503 in front of a handler chain that would answer 401. Handlers between them know the sender. The
// authenticator is that of the chain, and a Once.
func RejectDuringOutage(next http.Handler, auth authenticator.Request, s runtime.NegotiatedSerializer) http.Handler {
	return WithOutcome(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sender, ok, err := auth.AuthenticateRequest(req)
		if IsOutage(err) {
			answerOutage(s, w, req, err)
			return
		}
		if err == nil && ok {
			req = req.WithContext(request.WithUser(req.Context(), sender.User))
		}
		next.ServeHTTP(w, req)
	}))
}

// answerOutage answers 429 if too many other tokens are asked about, and otherwise 503.
func answerOutage(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, why error) {
	if contains(why, func(err error) bool { return errors.Is(err, tokens.ErrBusy) }) {
		status.TooMany(s, w, req, "too many tokens wait to be checked, please try again later")
		return
	}
	status.Unavailable(s, w, req, "the token cannot be checked while core is not available")
}
