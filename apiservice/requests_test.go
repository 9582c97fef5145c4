// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

func TestAServiceReadsAuthorizesAndAnswersRequestsInItsOwnWay(t *testing.T) {
	config := &genericapiserver.Config{
		LegacyAPIGroupPrefixes: sets.NewString("api"),
		BuildHandlerChainFunc:  func(served http.Handler, _ *genericapiserver.Config) http.Handler { return served },
	}
	(*Requests)(nil).applyTo(config, nil)
	assert.Nil(t, config.RequestInfoResolver)

	environment := &Environment{}
	requests := Requests{
		Info: func(_ *http.Request, info *request.RequestInfo) *request.RequestInfo {
			return &request.RequestInfo{Verb: "list", Resource: "pods", Path: info.Path}
		},
		Authorizer: func(next authorizer.Authorizer) authorizer.Authorizer {
			assert.Nil(t, next)
			return authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return authorizer.DecisionAllow, "own", nil
			})
		},
		Around: func(chain http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Around", "yes")
				chain.ServeHTTP(w, req)
			})
		},
		Handler: func(e *Environment, next http.Handler) http.Handler {
			assert.Same(t, environment, e)
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Own", "yes")
				next.ServeHTTP(w, req)
			})
		},
	}
	requests.applyTo(config, environment)
	req := httptest.NewRequest(http.MethodGet, "/apis/a.example.com/v1/things/x", nil)
	info, err := config.RequestInfoResolver.NewRequestInfo(req)
	require.NoError(t, err)
	assert.Equal(t, &request.RequestInfo{Verb: "list", Resource: "pods", Path: "/apis/a.example.com/v1/things/x"}, info)
	decision, reason, err := config.Authorization.Authorizer.Authorize(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, authorizer.DecisionAllow, decision)
	assert.Equal(t, "own", reason)
	answer := httptest.NewRecorder()
	config.BuildHandlerChainFunc(http.NotFoundHandler(), config).ServeHTTP(answer, req)
	assert.Equal(t, http.StatusNotFound, answer.Code)
	assert.Equal(t, "yes", answer.Header().Get("Own"))
	assert.Equal(t, "yes", answer.Header().Get("Around"))
}
