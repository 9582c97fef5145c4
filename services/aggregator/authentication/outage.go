// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
)

// While core cannot be asked about a token, the answer is 503 and not 401: a client must not take
// its good token for a bad one.

// outageRecorder tells an answer about a token from the lack of one.
type outageRecorder struct{ authenticator.Token }

func (r outageRecorder) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	resp, ok, err := r.Token.AuthenticateToken(ctx, token)
	if err != nil && isOutage(err) {
		err = &outageError{err}
	}
	return resp, ok, err
}

// isOutage reports whether core could not be asked. A refused token comes as a plain error.
func isOutage(err error) bool {
	var connection *url.Error
	var status apierrors.APIStatus
	return errors.As(err, &connection) || errors.As(err, &status) || wait.Interrupted(err) || errors.Is(err, context.DeadlineExceeded)
}

type outageError struct{ error }

func (e *outageError) Unwrap() error { return e.error }

type outageKey struct{}

// WithOutage makes room in the request's context for a note about an outage. It belongs outside of
// the authentication filter.
func WithOutage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), outageKey{}, new(bool))))
	})
}

// NoteOutage wraps an authenticator so that it leaves the note for FailedHandler.
func NoteOutage(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		resp, ok, err := next.AuthenticateRequest(req)
		if note, present := req.Context().Value(outageKey{}).(*bool); present && containsOutage(err) {
			*note = true
		}
		return resp, ok, err
	})
}

// FailedHandler answers requests whose sender could not be authenticated: 503 if there is a note
// about an outage, else what unauthorized answers.
func FailedHandler(s runtime.NegotiatedSerializer, unauthorized http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if note, ok := req.Context().Value(outageKey{}).(*bool); ok && *note {
			answerOutage(s, w, req)
			return
		}
		unauthorized.ServeHTTP(w, req)
	})
}

// RejectDuringOutage answers 503 in front of a handler chain that would answer 401. The chain finds
// the answer about a token that is asked for here in the cache.
func RejectDuringOutage(next http.Handler, auth authenticator.Request, s runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" {
			// An authenticator may remove what it read; the chain has to read it again.
			if _, _, err := auth.AuthenticateRequest(req.Clone(req.Context())); containsOutage(err) {
				answerOutage(s, w, req)
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}

func answerOutage(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request) {
	proxy.Unavailable(s, w, req, "the token cannot be checked while core is not available")
}

// containsOutage looks into aggregated errors as well.
func containsOutage(err error) bool {
	var outage *outageError
	if errors.As(err, &outage) {
		return true
	}
	if list, ok := err.(interface{ Errors() []error }); ok {
		for _, e := range list.Errors() {
			if containsOutage(e) {
				return true
			}
		}
	}
	return false
}
