// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/emicklei/go-restful/v3"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// coreV1 has routes like those of the core group: of many resources, all with the same shapes.
func coreV1() []*restful.WebService {
	ws := new(restful.WebService)
	ws.Path("/api/v1").Produces("application/json", "application/vnd.kubernetes.protobuf")
	add := func(build func(string) *restful.RouteBuilder, path string) {
		ws.Route(build(path).To(func(*restful.Request, *restful.Response) {}).Consumes("*/*"))
	}
	for i := range 20 {
		resource := fmt.Sprintf("resources%d", i)
		if i == 0 {
			resource = "pods"
		}
		for _, path := range []string{resource, "namespaces/{namespace}/" + resource, "namespaces/{namespace}/" + resource + "/{name}",
			"watch/namespaces/{namespace}/" + resource, "watch/namespaces/{namespace}/" + resource + "/{name}",
			"namespaces/{namespace}/" + resource + "/{name}/status", "namespaces/{namespace}/" + resource + "/{name}/proxy/{path:*}"} {
			add(ws.GET, path)
			add(ws.PUT, path)
			add(ws.DELETE, path)
		}
	}
	for _, path := range []string{"namespaces", "namespaces/{name}", "namespaces/{name}/status"} {
		add(ws.GET, path)
	}
	return []*restful.WebService{ws}
}

var requests = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func newRequest(t testing.TB, method, path string, header http.Header) *http.Request {
	t.Helper()
	req := httptest.NewRequest(method, path, http.NoBody)
	req.Header = header
	info, err := requests.NewRequestInfo(req)
	if err != nil {
		return req // the handler chain would answer it
	}
	return req.WithContext(request.WithRequestInfo(req.Context(), info))
}

func TestRememberedRoutesAreThoseOfGoRestful(t *testing.T) {
	services, memory := coreV1(), &routes{}
	paths := []string{}
	for _, resource := range []string{"pods", "resources1", "unknown", "namespaces", "watch", "status"} {
		for _, format := range []string{
			"/api/v1/%s", "/api/v1/%s/", "//api/v1/%s", "/api/v1//%s", "/api/v1/namespaces/a/%s", "/api/v1/namespaces//%s", "/api/v1/namespaces/a/%s/b",
			"/api/v1/namespaces/a/%s/b/", "/api/v1/namespaces/a//%s/b", "/api/v1/namespaces/a/%s//b", "/api/v1/namespaces/a/%s/b/status",
			"/api/v1/namespaces/a/%s/b/proxy/c", "/api/v1/namespaces/a/%s/b/proxy/c/d", "/api/v1/watch/namespaces/a/%s", "/api/v1/watch/namespaces/a/%s/b",
			"/api/v1/namespaces/%s", "/api/v1/namespaces/%s/status", "/api/v1/%s/b", "/api/v1/namespaces/namespaces/%s/namespaces", "/api/v2/%s",
		} {
			paths = append(paths, fmt.Sprintf(format, resource))
		}
	}
	for range 3 {
		for _, path := range paths {
			for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodHead, http.MethodPatch} {
				for _, header := range []http.Header{
					{}, {"Accept": {"application/json"}}, {"Accept": {"text/html"}}, {"Accept": {"text/html", "application/json"}}, {"Content-Type": {"a/b"}},
				} {
					req := newRequest(t, method, path, header)
					service, route, err := memory.SelectRoute(services, req)
					wantService, want, wantErr := restful.CurlyRouter{}.SelectRoute(services, req)
					name := fmt.Sprintf("%s %s %v", method, path, header)
					require.Equal(t, wantErr, err, name)
					require.Same(t, wantService, service, name)
					require.Equal(t, want == nil, route == nil, name)
					if want != nil {
						require.Equal(t, want.Method+want.Path, route.Method+route.Path, name)
					}
				}
			}
		}
	}
	require.NotEmpty(t, memory.remembered)
}

func TestTheMemoryOfRoutesIsBounded(t *testing.T) {
	services, memory := coreV1(), &routes{}
	for i := range 2*mostRoutes + 1 {
		req := newRequest(t, http.MethodGet, "/api/v1/pods", http.Header{"Accept": {fmt.Sprintf("application/json, a/%d", i)}})
		_, route, err := memory.SelectRoute(services, req)
		require.NoError(t, err)
		require.Equal(t, "/api/v1/pods", route.Path)
		require.LessOrEqual(t, len(memory.remembered), mostRoutes)
	}
}

func BenchmarkRoutes(b *testing.B) {
	services := coreV1()
	req := newRequest(b, http.MethodGet, "/api/v1/namespaces/a/pods/b", http.Header{"Accept": {"application/json"}})
	for name, router := range map[string]restful.RouteSelector{"with the memory": &routes{}, "without": restful.CurlyRouter{}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := router.SelectRoute(services, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
