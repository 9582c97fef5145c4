// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// TestARequestsClassDecidesOnReplicaAndConnection uses the requests of TestClassify in package routing.
func TestARequestsClassDecidesOnReplicaAndConnection(t *testing.T) {
	short, watch := balance.Request{}, balance.Request{Kind: balance.Watch}
	things := balance.Key("example.com", "things")
	for _, test := range []struct {
		name string
		// owner is core and method is GET if empty.
		owner              routing.Owner
		method, path       string
		anonymous, upgrade bool
		balance            balance.Request
		wire               connections.Wire
	}{
		{name: "get", path: "/api/v1/namespaces/a/pods/b", balance: short, wire: connections.Either},
		{name: "list", path: "/api/v1/pods?limit=500", balance: short, wire: connections.Either},
		{name: "watch", path: "/api/v1/pods?watch=1", balance: watch},
		{name: "watch of one", path: "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db&watch", balance: watch},
		{name: "create", method: http.MethodPost, path: "/api/v1/namespaces/a/pods", balance: short},
		{name: "delete", method: http.MethodDelete, path: "/api/v1/namespaces/a/pods/b", balance: short},
		{name: "delete of all", method: http.MethodDelete, path: "/api/v1/namespaces/a/pods", balance: short},
		{name: "eviction", method: http.MethodPost, path: "/api/v1/namespaces/a/pods/b/eviction", balance: short},
		{name: "log", path: "/api/v1/namespaces/a/pods/b/log?follow=true", balance: watch, wire: connections.Isolated},
		{name: "exec over SPDY", method: http.MethodPost, path: "/api/v1/namespaces/a/pods/b/exec?command=date", upgrade: true,
			balance: watch, wire: connections.Exclusive},
		{name: "exec over WebSocket", path: "/api/v1/namespaces/a/pods/b/exec?command=date", upgrade: true, balance: watch, wire: connections.Exclusive},
		{name: "exec by mistake", path: "/api/v1/namespaces/a/pods/b/exec?command=date", balance: watch, wire: connections.Isolated},
		{name: "another upgrade", path: "/api/v1/pods", upgrade: true, balance: watch, wire: connections.Exclusive},
		{name: "proxy", path: "/api/v1/namespaces/a/pods/b/proxy/c", balance: watch, wire: connections.Isolated},
		{name: "anonymous", path: "/version", anonymous: true, balance: short, wire: connections.Few},
		{name: "discovery", path: "/apis", balance: short, wire: connections.Either},
		{name: "profile", path: "/debug/pprof/profile", balance: watch},
		{name: "custom resource", owner: routing.Extensions, path: "/apis/example.com/v1/namespaces/a/things/b",
			balance: balance.Request{Key: things}, wire: connections.Either},
		{name: "its status", owner: routing.Extensions, method: http.MethodPut, path: "/apis/example.com/v1/namespaces/a/things/b/status",
			balance: balance.Request{Key: things}},
		{name: "all of its versions", owner: routing.Extensions, path: "/apis/example.com/v2/things?watch=true",
			balance: balance.Request{Key: things, Kind: balance.Watch}},
		{name: "discovery of its group", owner: routing.Extensions, path: "/apis/example.com/v1", balance: short, wire: connections.Either},
		{name: "definition", owner: routing.Extensions, path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a",
			balance: short, wire: connections.Either},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.owner == "" {
				test.owner = routing.Core
			}
			if test.method == "" {
				test.method = http.MethodGet
			}
			req, err := http.NewRequestWithContext(t.Context(), test.method, "https://host"+test.path, nil)
			require.NoError(t, err)
			if test.upgrade {
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "websocket")
			}
			class, err := routing.Classify(req, routing.Target{Owner: test.owner})
			require.NoError(t, err)
			sender := user.Info(&user.DefaultInfo{Name: "jane"})
			if test.anonymous {
				sender = &user.DefaultInfo{Name: user.Anonymous}
			}
			assert.Empty(t, cmp.Diff(test.balance, balanceOf(class)), "balance")
			assert.Equal(t, test.wire, wireOf(class, IsAnonymous(sender), isOrdinary(req)), "wire")
		})
	}
}

// passing is a transport that sends nothing.
type passing func(*http.Request)

func (p passing) RoundTrip(req *http.Request) (*http.Response, error) {
	p(req)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestARequestOfTheAggregatorHasAClassOfItsOwn(t *testing.T) {
	for path, want := range map[string]balance.Kind{
		"/api/v1/pods?watch=true&resourceVersion=1": balance.Watch, "/api/v1/pods?watch=1": balance.Watch, "/api/v1/pods?limit=1": balance.Short,
	} {
		var got *routing.Request
		transport := asAggregator{passing(func(req *http.Request) { got = routing.Of(req) })}
		inbound := &routing.Request{Target: routing.Target{Owner: routing.Core, Replica: "127.0.0.1:1"}, LongRunning: true}
		req, err := http.NewRequestWithContext(inbound.In(t.Context()), http.MethodGet, "https://host"+path, nil)
		require.NoError(t, err)
		if _, err := transport.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if balanceOf(got).Kind != want || got.Replica != "" {
			t.Errorf("%s is %+v", path, got)
		}
	}
}
