// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/services/aggregator/authn/tokens"
)

// answers are what core can answer about a token, and what a client must get.
var answers = map[string]struct {
	err  error
	want int
}{
	"token is good":        {nil, http.StatusOK},
	"token is bad":         {errors.New("token expired"), http.StatusUnauthorized},
	"core cannot be asked": {&tokens.UnavailableError{}, http.StatusServiceUnavailable},
	"and somebody adds to": {fmt.Errorf("look up: %w", &tokens.UnavailableError{}), http.StatusServiceUnavailable},
	"too many are asked":   {tokens.NewUnavailableError(tokens.ErrBusy), http.StatusTooManyRequests},
}

// asking is an authenticator of bearer tokens that gets the given answer from core, and counts its questions.
func asking(err error, questions *int) authenticator.Request {
	tokens := authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		*questions++
		if err != nil {
			return nil, false, err
		}
		return &authenticator.Response{}, true, nil
	})
	// What another way of authentication complains about must not hide the outage.
	other := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("no certificate")
	})
	return Once(union.New(other, bearertoken.New(tokens)))
}

func ask(handler http.Handler) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, "/api", nil)
	req.Header.Set("Authorization", "Bearer t")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	return w
}

func TestAnOutageOfCoreIsNotTakenForABadToken(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	codecs := aggregatorscheme.Codecs
	unauthorized := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	chains := map[string]func(authenticator.Request) http.Handler{
		"short": func(auth authenticator.Request) http.Handler {
			return WithOutcome(authenticated(served, auth, FailedHandler(codecs, unauthorized)))
		},
		"full": func(auth authenticator.Request) http.Handler {
			return RejectDuringOutage(authenticated(served, auth, unauthorized), auth, codecs)
		},
	}
	for name, test := range answers {
		for chain, build := range chains {
			t.Run(name+"/"+chain, func(t *testing.T) {
				questions := 0
				w := ask(build(asking(test.err, &questions)))
				assert.Equal(t, test.want, w.Code)
				if w.Code != test.want || w.Code > http.StatusUnauthorized && w.Header().Get("Retry-After") == "" {
					t.Errorf("%d without Retry-After", w.Code)
				}
				assert.Equal(t, 1, questions, "core was asked %d times", questions)
			})
		}
	}
}

func TestEveryRequestIsAuthenticatedOnItsOwn(t *testing.T) {
	questions := 0
	auth := asking(nil, &questions)
	handler := WithOutcome(authenticated(http.NotFoundHandler(), auth, http.NotFoundHandler()))
	ask(handler)
	ask(handler)
	assert.Equal(t, 2, questions, "core was asked %d times for two requests", questions)
}

// authenticated stands for the authentication filter.
func authenticated(next http.Handler, auth authenticator.Request, failed http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, ok, err := auth.AuthenticateRequest(req); err != nil || !ok {
			failed.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}
