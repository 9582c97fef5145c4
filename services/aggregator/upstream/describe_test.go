// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/google/go-cmp/cmp"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

func TestDescribe(t *testing.T) {
	short, watch := balance.Request{}, balance.Request{Kind: balance.Watch}
	things := balance.Key("example.com", "things")
	resource := schema.GroupResource{Group: "example.com", Resource: "things"}
	tests := []struct {
		name string
		// backend is core unless it is said.
		backend, method, path string
		anonymous, upgrade    bool
		want                  description
	}{
		{name: "get", path: "/api/v1/namespaces/a/pods/b", want: description{balance: short, wire: connections.Either, safe: true}},
		{name: "list", path: "/api/v1/pods?limit=500", want: description{balance: short, wire: connections.Either, safe: true}},
		{name: "watch", path: "/api/v1/pods?watch=1", want: description{balance: watch, safe: true}},
		{name: "watch of one", path: "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db&watch", want: description{balance: watch, safe: true}},
		{name: "create", method: http.MethodPost, path: "/api/v1/namespaces/a/pods", want: description{balance: short}},
		{name: "delete", method: http.MethodDelete, path: "/api/v1/namespaces/a/pods/b", want: description{balance: short}},
		{name: "delete of all", method: http.MethodDelete, path: "/api/v1/namespaces/a/pods", want: description{balance: short}},
		{name: "eviction", method: http.MethodPost, path: "/api/v1/namespaces/a/pods/b/eviction", want: description{balance: short, answers429: true}},
		{name: "log", path: "/api/v1/namespaces/a/pods/b/log?follow=true", want: description{balance: watch, safe: true}},
		{name: "exec over SPDY", method: http.MethodPost, path: "/api/v1/namespaces/a/pods/b/exec?command=date", upgrade: true,
			want: description{balance: watch, wire: connections.Exclusive}},
		{name: "exec over WebSocket", path: "/api/v1/namespaces/a/pods/b/exec?command=date", upgrade: true,
			want: description{balance: watch, wire: connections.Exclusive}},
		{name: "exec by mistake", path: "/api/v1/namespaces/a/pods/b/exec?command=date", want: description{balance: watch}},
		{name: "proxy", path: "/api/v1/namespaces/a/pods/b/proxy/c", want: description{balance: watch, safe: true}},
		{name: "anonymous", path: "/version", anonymous: true, want: description{balance: short, wire: connections.Exclusive, safe: true}},
		{name: "discovery", path: "/apis", want: description{balance: short, wire: connections.Either, safe: true}},
		{name: "custom resource", backend: Extensions, path: "/apis/example.com/v1/namespaces/a/things/b",
			want: description{balance: balance.Request{Key: things}, resource: resource, wire: connections.Either, safe: true}},
		{name: "its status", backend: Extensions, method: http.MethodPut, path: "/apis/example.com/v1/namespaces/a/things/b/status",
			want: description{balance: balance.Request{Key: things}, resource: resource}},
		{name: "all of its versions", backend: Extensions, path: "/apis/example.com/v2/things?watch=true",
			want: description{balance: balance.Request{Key: things, Kind: balance.Watch}, resource: resource, safe: true}},
		{name: "discovery of its group", backend: Extensions, path: "/apis/example.com/v1", want: description{balance: short, wire: connections.Either, safe: true}},
		{name: "definition", backend: Extensions, path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a",
			want: description{balance: short, wire: connections.Either, safe: true}},
	}
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := &Backend{name: Core}
			if test.backend != "" {
				b.name = test.backend
			}
			if test.method == "" {
				test.method = http.MethodGet
			}
			req, err := http.NewRequestWithContext(t.Context(), test.method, "https://host"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.upgrade {
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "websocket")
			}
			info, err := resolver.NewRequestInfo(req)
			if err != nil {
				t.Fatal(err)
			}
			req = req.WithContext(request.WithRequestInfo(req.Context(), info))
			if test.anonymous {
				req = by(user.Anonymous, req)
			}
			if diff := cmp.Diff(test.want, b.describe(req), cmp.AllowUnexported(description{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("one of the aggregator's own", func(t *testing.T) {
		for query, want := range map[string]balance.Kind{"watch=true&resourceVersion=1": balance.Watch, "watch=1": balance.Watch, "limit=1": balance.Short} {
			req := newRequest(t, http.MethodGet, "")
			req.URL.RawQuery = query
			if got := (&Backend{name: Core}).describe(req).balance.Kind; got != want {
				t.Errorf("%s is %s", query, got)
			}
		}
	})
}
