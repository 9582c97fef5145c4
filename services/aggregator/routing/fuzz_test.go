// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/streaming/pkg/httpstream"
)

// FuzzClassify compares the classes of requests with what k8s.io/apiserver, whose RequestInfo decides in the backends, makes of them.
func FuzzClassify(f *testing.F) {
	for _, uri := range []string{
		"/api/v1/namespaces/a/pods/b/log?follow=1", "/api/v1/watch/pods", "/api/v1/proxy/namespaces/a/pods/b/c", "/apis/apps/v1/deployments?watch=0",
		"/apis/example.com/v1/namespaces/a/things/b/status", "/apis/wardle.example.com/v1/flunders", "/apis/apiregistration.k8s.io/v1/apiservices/a",
		"/apis//v1/things", "//api/v1/pods", "/api/v1//pods", "/apis/example.com/", "/metrics?service=core&replica=a", "/openapi/v2", "/healthz/etcd", "/",
	} {
		f.Add("GET", uri, "")
		f.Add("POST", uri, "websocket")
	}
	oracle := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	table := completeTable()
	table.SetResources(Core, map[schema.GroupVersionResource]bool{{Version: "v1", Resource: "pods"}: true})
	f.Fuzz(func(t *testing.T, method, uri, upgrade string) {
		parsed, err := url.ParseRequestURI(uri)
		if err != nil || !strings.HasPrefix(parsed.Path, "/") {
			return // refused by the HTTP server
		}
		req := &http.Request{Method: method, URL: parsed, Header: http.Header{}}
		if upgrade != "" {
			req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {upgrade}}
		}
		want, wantErr := oracle.NewRequestInfo(req)
		got, gotErr := table.classify(req)
		require.Equal(t, wantErr == nil, gotErr == nil)
		if wantErr != nil {
			return
		}
		require.Empty(t, cmp.Diff(want, got.Info))
		require.Equal(t, httpstream.IsUpgradeRequest(req), got.Upgrade)
		if want.IsResourceRequest && !strings.Contains(parsed.Path, "//") { // API servers serve nothing at paths with empty segments
			owner := table.GroupVersion(schema.GroupVersion{Group: want.APIGroup, Version: want.APIVersion}).Owner
			if want.APIGroup == apiRegistrationGroup {
				owner = Aggregator
			}
			require.Equal(t, owner, got.Owner, "the owner is not that of the group-version that backends see")
		}
		if got.Repeatable && (got.Upgrade || method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions) {
			t.Errorf("a request that may change something is repeated: %+v", got)
		}
		if got.Plain && (got.Upgrade || !want.IsResourceRequest) || got.Holdable && (got.LongRunning || want.Verb == "watch") {
			t.Errorf("contradictory class: %+v", got)
		}
		if got.Replica != "" && !Introspects(parsed.Path) {
			t.Errorf("a client chooses the replica for %s", uri)
		}
		labels := got.Labels()
		if labels.Resource != "" && labels.Resource != "pods" || labels.Subresource != "" || labels.Path != "" {
			t.Errorf("a client names series: %+v", labels)
		}
	})
}
