// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

func TestClientsReadOpenAPIBelowThePrefix(t *testing.T) {
	s := newStore(t)
	for cluster, document := range map[string]string{"east": `{"of": "east"}`, "west": `{"of": "west"}`} {
		require.NoError(t, s.PutSchema(t.Context(), cluster, "apis/apps/v1", "1", []byte(document)))
	}
	require.NoError(t, s.PutSchema(t.Context(), "west", "api/v1", "1", []byte(`{"of": "west"}`)))
	h := NewHandler(s, nil, http.NotFoundHandler())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h.ServeHTTP(w, byAdministrator(req))
	}))
	defer server.Close()
	for cluster, want := range map[string]map[string]string{
		"":               {"apis/apps/v1": `{"of": "east"}`, "api/v1": `{"of": "west"}`},
		"/clusters/west": {"apis/apps/v1": `{"of": "west"}`, "api/v1": `{"of": "west"}`},
		"/clusters/east": {"apis/apps/v1": `{"of": "east"}`},
	} {
		client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL + "/apis/clusterpedia.io/v1beta1/resources" + cluster})
		require.NoError(t, err)
		paths, err := client.OpenAPIV3().Paths()
		require.NoError(t, err)
		got := map[string]string{}
		for path, document := range paths {
			text, err := document.Schema("application/json")
			require.NoError(t, err)
			got[path] = string(text)
		}
		assert.Equal(t, want, got, cluster)
	}
}

func TestOpenAPIThatNobodyHas(t *testing.T) {
	h := NewHandler(newStore(t), nil, http.NotFoundHandler())
	answer, _ := ask(t, h, http.MethodGet, "resources/openapi/v3/apis/apps/v1", "")
	assert.Equal(t, http.StatusNotFound, answer.Code)
	answer, _ = ask(t, h, http.MethodGet, "resources/openapi/v3", "")
	assert.JSONEq(t, `{"paths": {}}`, answer.Body.String())
	answer, _ = ask(t, h, http.MethodGet, "resources/openapi/v2", "")
	assert.Equal(t, http.StatusNotFound, answer.Code)
}

func TestOpenAPIIsCompressedForThoseWhoAcceptIt(t *testing.T) {
	s := newStore(t)
	require.NoError(t, s.PutSchema(t.Context(), "east", "api/v1", "1", []byte(`{"of": "east"}`)))
	h := NewHandler(s, nil, http.NotFoundHandler())
	for accept, want := range map[string]string{"": "", "gzip": "gzip", "deflate, gzip;q=0.5": "gzip", "gzip;q=0": ""} {
		req := httptest.NewRequest(http.MethodGet, "/apis/clusterpedia.io/v1beta1/resources/openapi/v3/api/v1", nil)
		req.Header.Set("Accept-Encoding", accept)
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, byAdministrator(req))
		assert.Equal(t, want, answer.Header().Get("Content-Encoding"), accept)
		if want == "" {
			assert.JSONEq(t, `{"of": "east"}`, answer.Body.String())
		}
	}
}
