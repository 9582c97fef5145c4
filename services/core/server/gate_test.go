// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// gated returns the code that a user gets from a chain that forbids everything.
func gated(factory informers.SharedInformerFactory, authorization ...string) (code func() *httptest.ResponseRecorder) {
	config := &genericapiserver.Config{
		Serializer:            legacyscheme.Codecs,
		RequestInfoResolver:   &request.RequestInfoFactory{APIPrefixes: sets.NewString("api")},
		BuildHandlerChainFunc: func(handler http.Handler, _ *genericapiserver.Config) http.Handler { return handler },
	}
	config.Authorization.Authorizer = authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)
	config.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
	})
	applyGate(config, factory, authorization)
	forbids := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	chain := config.BuildHandlerChainFunc(forbids, config)
	return func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		chain.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
		return w
	}
}

func TestNobodyIsForbiddenBeforeAuthorizersKnowAllObjects(t *testing.T) {
	for _, mode := range []string{"RBAC", "Node"} {
		t.Run(mode, func(t *testing.T) {
			factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
			ask := gated(factory, mode)
			before := ask()
			assert.Equal(t, http.StatusServiceUnavailable, before.Code)
			assert.Equal(t, "1", before.Header().Get("Retry-After"))
			factory.Start(t.Context().Done())
			factory.WaitForCacheSync(t.Context().Done())
			assert.Equal(t, http.StatusForbidden, ask().Code)
		})
	}
}

func TestModesWithoutObjectsDoNotWait(t *testing.T) {
	ask := gated(informers.NewSharedInformerFactory(fake.NewClientset(), 0), "AlwaysDeny")
	assert.Equal(t, http.StatusForbidden, ask().Code)
}
