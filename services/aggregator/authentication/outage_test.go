// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
)

// answers are what core can say about a token, and what a client must be told.
var answers = map[string]struct {
	err  error
	want int
}{
	"token is good":            {nil, http.StatusOK},
	"token is bad":             {errors.New("token expired"), http.StatusUnauthorized},
	"core refuses connections": {&url.Error{Op: "Post", Err: errors.New("connection refused")}, http.StatusServiceUnavailable},
	"core is overloaded":       {apierrors.NewTooManyRequests("busy", 1), http.StatusServiceUnavailable},
	"core does not answer":     {context.DeadlineExceeded, http.StatusServiceUnavailable},
}

// asking is an authenticator of bearer tokens that gets the given answer from core.
func asking(err error) authenticator.Request {
	tokens := authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		if err != nil {
			return nil, false, err
		}
		return &authenticator.Response{}, true, nil
	})
	// What another way of authentication complains about must not hide the outage.
	other := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("no certificate")
	})
	return NoteOutage(union.New(other, bearertoken.New(outageRecorder{tokens})))
}

func ask(handler http.Handler) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, "/api", nil)
	req.Header.Set("Authorization", "Bearer t")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	return w
}

func TestAnOutageOfCoreIsNotTakenForABadToken(t *testing.T) {
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	codecs := aggregatorscheme.Codecs
	for name, test := range answers {
		auth := asking(test.err)
		unauthorized := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
		for chain, handler := range map[string]http.Handler{
			"short": WithOutage(authenticated(served, auth, FailedHandler(codecs, unauthorized))),
			"full":  RejectDuringOutage(authenticated(served, auth, unauthorized), auth, codecs),
		} {
			t.Run(name+"/"+chain, func(t *testing.T) {
				w := ask(handler)
				if w.Code != test.want {
					t.Errorf("answer is %d, want %d", w.Code, test.want)
				}
				if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
					t.Error("503 without Retry-After")
				}
			})
		}
	}
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
