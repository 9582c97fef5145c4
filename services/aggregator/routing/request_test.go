// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Targets of another form than a path would be read here in one way and, when an HTTP client has written them anew, by a backend in another.
func TestRequestsWithoutAPathAreRefused(t *testing.T) {
	reached := 0
	server := httptest.NewServer(completeTable().WithRequest(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })))
	defer server.Close()
	for line, want := range map[string]int{
		"GET x:http://host/api/v1/pods": http.StatusBadRequest,
		"GET mailto:api/v1/pods":        http.StatusBadRequest,
		"CONNECT host:443":              http.StatusBadRequest,
		"GET http://host/api/v1/pods":   http.StatusOK,
		"GET //host/api/v1/pods":        http.StatusOK,
		"CONNECT /api/v1/pods":          http.StatusOK,
	} {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(connection, "%s HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n", line)
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		require.NoError(t, err)
		assert.Equal(t, want, answer.StatusCode, line)
		require.NoError(t, connection.Close())
	}
	assert.Equal(t, 3, reached)
}

func TestClassify(t *testing.T) {
	things := schema.GroupResource{Group: "example.com", Resource: "things"}
	// The table has what differs from these classes.
	var (
		read   = Request{Kind: Object, Plain: true, Repeatable: true, Holdable: true}
		write  = Request{Kind: Object, Plain: true, Holdable: true}
		watch  = Request{Kind: Watch, LongRunning: true, Plain: true, Repeatable: true}
		tunnel = Request{Kind: PassedOn, LongRunning: true, Upgrade: true, Tunnel: true}
		passed = Request{Kind: PassedOn, LongRunning: true, Repeatable: true}
		other  = Request{Kind: NonResource, Repeatable: true, Holdable: true}
	)
	with := func(class Request, change func(*Request)) Request {
		change(&class)
		return class
	}
	ownedBy := func(owner Owner, class Request) Request {
		return with(class, func(r *Request) { r.Owner = owner })
	}
	custom := func(class Request) Request {
		return with(class, func(r *Request) { r.Owner, r.Resource = Extensions, things })
	}
	noRead := func(class Request) Request {
		return with(class, func(r *Request) { r.Repeatable = false })
	}
	notPlain := func(class Request) Request {
		return with(class, func(r *Request) { r.Plain = false })
	}
	upgrade := http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}}
	for _, test := range []struct {
		name string
		// method is GET unless it is set.
		method, url string
		header      http.Header
		trailer     http.Header
		want        Request
	}{
		{name: "get", url: "/api/v1/namespaces/a/pods/b", want: read},
		{name: "head", method: http.MethodHead, url: "/api/v1/namespaces/a/pods/b", want: read},
		{name: "list", url: "/api/v1/pods?limit=500", want: read},
		{name: "create", method: http.MethodPost, url: "/api/v1/namespaces/a/pods", want: write},
		{name: "update", method: http.MethodPut, url: "/api/v1/namespaces/a/pods/b", want: write},
		{name: "patch", method: http.MethodPatch, url: "/api/v1/namespaces/a/pods/b", want: write},
		{name: "delete", method: http.MethodDelete, url: "/api/v1/namespaces/a/pods/b", want: write},
		{name: "delete of all", method: http.MethodDelete, url: "/api/v1/namespaces/a/pods", want: write},
		{name: "status", method: http.MethodPut, url: "/api/v1/namespaces/a/pods/b/status", want: write},
		{name: "eviction", method: http.MethodPost, url: "/api/v1/namespaces/a/pods/b/eviction",
			want: with(write, func(r *Request) { r.Eviction = true })},
		{name: "token", method: http.MethodPost, url: "/api/v1/namespaces/a/serviceaccounts/b/token", want: write},

		{name: "watch", url: "/api/v1/pods?watch=1", want: watch},
		{name: "watch of one", url: "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db&watch", want: watch},
		{name: "watch by path", url: "/api/v1/watch/pods", want: watch},
		{name: "watch of no resource", url: "/version?watch=1", want: other},

		{name: "log", url: "/api/v1/namespaces/a/pods/b/log?follow=true", want: passed},
		{name: "proxy of a pod", url: "/api/v1/namespaces/a/pods/b/proxy/c", want: passed},
		{name: "proxy of a service", method: http.MethodPost, url: "/api/v1/namespaces/a/services/b/proxy/c", want: noRead(passed)},
		{name: "proxy of a node", url: "/api/v1/nodes/b/proxy/c", want: passed},
		{name: "proxy by path", url: "/api/v1/proxy/namespaces/a/pods/b", want: passed},
		{name: "exec over SPDY", method: http.MethodPost, url: "/api/v1/namespaces/a/pods/b/exec?command=date", header: upgrade, want: tunnel},
		{name: "exec over WebSocket", url: "/api/v1/namespaces/a/pods/b/exec?command=date", header: upgrade, want: tunnel},
		{name: "attach", url: "/api/v1/namespaces/a/pods/b/attach", header: upgrade, want: tunnel},
		{name: "portforward", url: "/api/v1/namespaces/a/pods/b/portforward", header: upgrade, want: tunnel},
		{name: "exec by mistake", url: "/api/v1/namespaces/a/pods/b/exec?command=date",
			want: with(tunnel, func(r *Request) { r.Upgrade, r.Tunnel = false, false })},

		{name: "upgrade of a list", url: "/api/v1/pods", header: upgrade, want: Request{Kind: Object, Upgrade: true, Tunnel: true}},
		{name: "upgrade to nothing", url: "/api/v1/pods", header: http.Header{"Connection": {"Upgrade"}},
			want: with(read, func(r *Request) { r.Upgrade = true })},
		{name: "upgrade without a connection", url: "/api/v1/pods", header: http.Header{"Upgrade": {"websocket"}}, want: notPlain(read)},
		{name: "expect", method: http.MethodPost, url: "/api/v1/pods", header: http.Header{"Expect": {"100-continue"}}, want: notPlain(write)},
		{name: "trailers", method: http.MethodPost, url: "/api/v1/pods", trailer: http.Header{"A": nil}, want: notPlain(write)},

		{name: "version", url: "/version", want: other},
		{name: "options", method: http.MethodOptions, url: "/version", want: other},
		{name: "post to no resource", method: http.MethodPost, url: "/version", want: noRead(other)},
		{name: "discovery of all groups", url: "/apis", want: ownedBy(Aggregator, other)},
		{name: "discovery of a version", url: "/apis/example.com/v1", want: ownedBy(Extensions, other)},
		{name: "health", url: "/healthz?service=etcd", want: with(other, func(r *Request) { r.Owner, r.UnknownService = Aggregator, true })},
		{name: "profile", url: "/debug/pprof/profile?service=core&replica=a:1", want: with(other, func(r *Request) {
			r.Replica, r.LongRunning, r.Holdable = "a:1", true, false
		})},

		{name: "custom resource", url: "/apis/example.com/v1/namespaces/a/things/b", want: custom(read)},
		{name: "its status", method: http.MethodPut, url: "/apis/example.com/v1/namespaces/a/things/b/status", want: custom(write)},
		{name: "another of its versions", url: "/apis/example.com/v2/things?watch=true", want: custom(watch)},
		{name: "definition", url: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a", want: ownedBy(Extensions, read)},
		{name: "APIService", url: "/apis/apiregistration.k8s.io/v1/apiservices/a", want: ownedBy(Aggregator, read)},
		{name: "aggregated resource", url: "/apis/wardle.example.com/v1/flunders", want: ownedBy(Aggregated, read)},
		{name: "its tunnel", url: "/apis/wardle.example.com/v1/namespaces/a/flunders/b/console", header: upgrade, want: Request{
			Target: Target{Owner: Aggregated}, Kind: Object, Upgrade: true, Tunnel: true,
		}},
		{name: "no tunnel, as it is to nothing", url: "/apis/wardle.example.com/v1/flunders", header: http.Header{"Connection": {"Upgrade"}},
			want: ownedBy(Aggregated, with(read, func(r *Request) { r.Upgrade = true }))},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.method == "" {
				test.method = http.MethodGet
			}
			if test.want.Owner == "" {
				test.want.Owner = Core
			}
			req := httptest.NewRequest(test.method, test.url, nil)
			req.Header, req.Trailer = test.header.Clone(), test.trailer
			var got *Request
			completeTable().WithRequest(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				got = Of(req)
				if info, ok := request.RequestInfoFrom(req.Context()); !ok || info != got.Info {
					t.Error("kube-apiserver's filters have another RequestInfo")
				}
				if info, err := (Resolver{}).NewRequestInfo(req); err != nil || info != got.Info {
					t.Errorf("kube-apiserver's filters get another RequestInfo, error %v", err)
				}
				assert.Equal(t, got.LongRunning, IsLongRunning(req, nil), "kube-apiserver's filters get another answer")
			})).ServeHTTP(httptest.NewRecorder(), req)
			if got == nil {
				t.Fatal("it was not served")
			}
			class := *got
			class.Info, class.Handler = nil, nil
			assert.Empty(t, cmp.Diff(test.want, class, cmpopts.IgnoreUnexported(Request{})))
		})
	}
}

func TestAPathWithoutAMeaningIsAnswered(t *testing.T) {
	w := httptest.NewRecorder()
	completeTable().WithRequest(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was served") })).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/watch", nil))
	assert.Equal(t, http.StatusInternalServerError, w.Code, "answer is %d: %s", w.Code, w.Body)
}

func BenchmarkWithRequest(b *testing.B) {
	handler := completeTable().WithRequest(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	req := httptest.NewRequest(http.MethodGet, "/apis/example.com/v1/namespaces/default/foos/bar", nil)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(nil, req)
	}
}

func TestAWatchInsideOfARequestForAnAdditionalServiceLasts(t *testing.T) {
	const nested = "/apis/clusterpedia.io/v1beta1/resources/clusters/hub/api/v1/pods"
	for url, of := range map[string]map[Owner]bool{
		nested + "?watch=true":  {"search": true, Extensions: false, Core: false, Aggregated: false},
		nested + "?watch":       {"search": true},
		nested + "?watch=false": {"search": false},
		nested + "?limit=5":     {"search": false},
		"/apis/clusterpedia.io/v1beta1/collectionresources/any?watch=true": {"search": false},
	} {
		for owner, want := range of {
			class, err := Classify(httptest.NewRequest(http.MethodGet, url, nil), Target{Owner: owner})
			require.NoError(t, err)
			assert.Equal(t, want, class.LongRunning, "%s %s", owner, url)
			assert.Equal(t, want, class.Kind == Watch, "%s %s", owner, url)
			assert.Equal(t, !want, class.Holdable, "%s %s", owner, url)
		}
	}
}

func TestAnAdditionalServiceDeclaresWhatLasts(t *testing.T) {
	table := NewTable(builtin, "books", "films")
	for _, service := range []*apiregistrationv1.APIService{
		apiService("", "v1", "tripod-system", "core"), apiService("apps", "v1", "tripod-system", "core"),
		apiService("example.com", "v1", "tripod-system", "extensions"),
		apiService("library.example.com", "v1", "tripod-system", "books"), apiService("library.example.com", "v2", "tripod-system", "books"),
		apiService("films.example.com", "v1", "tripod-system", "films"),
	} {
		table.SetAPIService(service, nil)
	}
	table.SetAPIService(apiService("wardle.example.com", "v1", "wardle", "api"), http.NotFoundHandler())
	table.SetCore([]schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}})
	table.SetComplete()
	declared := map[schema.GroupVersionResource]bool{}
	for _, group := range []string{"", "apps", "example.com", "library.example.com", "films.example.com", "wardle.example.com", "apiregistration.k8s.io"} {
		gv := schema.GroupVersion{Group: group, Version: "v1"}
		for _, name := range []string{"books/tail", "pods/tail", "things/tail", "*/tail", "books", "pods", "*"} {
			declared[gv.WithResource(name)] = true
		}
	}
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	lasts := func(method, url string, header http.Header) bool {
		t.Helper()
		req := httptest.NewRequest(method, url, nil)
		req.Header = header
		class, err := table.classify(req)
		require.NoError(t, err)
		assert.Equal(t, !class.LongRunning && header == nil, class.Holdable, url)
		if class.LongRunning {
			assert.Equal(t, PassedOn, class.Kind, url)
			assert.False(t, class.Plain, url)
		}
		return class.LongRunning
	}
	const tail = "/apis/library.example.com/v1/namespaces/a/books/b/tail"
	require.False(t, lasts(http.MethodGet, tail, nil), "nothing is declared yet")
	table.SetLongRunning("books", declared)
	table.SetResources("books", declared)
	table.SetAPIService(apiService("other.example.com", "v1", "tripod-system", "films"), nil)
	for _, url := range []string{tail, tail + "/further/path?follow=true", "/apis/library.example.com/v1/books/b/tail"} {
		assert.True(t, lasts(http.MethodGet, url, nil), url)
		assert.True(t, lasts(http.MethodPost, url, upgrade), url)
	}
	for _, url := range []string{
		"/apis/library.example.com/v1/books", "/apis/library.example.com/v1/namespaces/a/books/b", "/apis/library.example.com/v1/books/b/status",
		"/apis/library.example.com/v2/namespaces/a/books/b/tail", "/apis/library.example.com/v1/magazines/b/tail", "/apis/library.example.com/v1",
		"/api/v1/pods", "/api/v1/namespaces/a/pods/b", "/api/v1/namespaces/a/pods/b/tail", "/apis/apps/v1/namespaces/a/books/b/tail",
		"/apis/example.com/v1/things/b/tail", "/apis/films.example.com/v1/books/b/tail", "/apis/wardle.example.com/v1/books/b/tail",
		"/apis/apiregistration.k8s.io/v1/books/b/tail", "/metrics?service=books",
	} {
		assert.False(t, lasts(http.MethodGet, url, nil), url)
	}
	table.SetLongRunning("books", nil)
	assert.False(t, lasts(http.MethodGet, tail, nil), "it is not declared any more")
}
