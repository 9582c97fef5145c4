// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
)

func TestLegacyDiscoveryShowsWhatAggregatedDiscoveryHas(t *testing.T) {
	manager := aggregated.NewResourceManager("apis")
	for _, version := range []string{"v1beta1", "v1"} {
		manager.AddGroupVersion("example.com", apidiscoveryv2.APIVersionDiscovery{
			Version:   version,
			Resources: []apidiscoveryv2.APIResourceDiscovery{{Resource: "widgets", SingularResource: "widget", Scope: "Namespaced"}},
		})
	}
	recorder := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/apis", nil)
	req.Header.Set("Accept", "application/json")
	legacyDiscovery{manager}.ServeHTTP(recorder, req)

	var got metav1.APIGroupList
	if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, recorder.Body)
	}
	v1 := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
	v1beta1 := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1beta1", Version: "v1beta1"}
	want := metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups: []metav1.APIGroup{{
			Name:             "example.com",
			Versions:         []metav1.GroupVersionForDiscovery{v1, v1beta1},
			PreferredVersion: v1,
		}},
	}
	assert.Empty(t, cmp.Diff(want, got), "discovery")
}

func TestDiscoveryIsUnavailableUntilComplete(t *testing.T) {
	complete := make(chan struct{})
	handler := genericapifilters.WithMuxAndDiscoveryComplete(
		whenComplete(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), complete)
	ask := func() *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/apis", nil))
		return recorder
	}
	if got := ask(); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" {
		t.Errorf("before: code %d, Retry-After %q", got.Code, got.Header().Get("Retry-After"))
	}
	close(complete)
	if got := ask(); got.Code != http.StatusOK {
		t.Errorf("after: code %d", got.Code)
	}
}
