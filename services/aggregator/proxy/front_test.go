// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

var jane = &user.DefaultInfo{
	Name:   "jane",
	UID:    "42",
	Groups: []string{"devs", "system:authenticated"},
	Extra:  map[string][]string{"example.com/Scopes": {"a", "b"}},
}

// Paths of a request for objects, and of another one.
const (
	forObjects = "/api/v1/pods"
	forOthers  = "/version"
)

// toServer sends every request to one server, as the transport of a backend does.
type toServer struct{ server *httptest.Server }

func (t toServer) RoundTrip(req *http.Request) (*http.Response, error) {
	target, err := url.Parse(t.server.URL)
	if err != nil {
		return nil, err
	}
	req.URL.Scheme, req.URL.Host = target.Scheme, target.Host
	return http.DefaultTransport.RoundTrip(req)
}

// failing returns a transport that fails.
func failing(err error) http.RoundTripper {
	return roundtrip.Func(func(*http.Request) (*http.Response, error) { return nil, err })
}

// serve serves a handler of requests that the user has sent.
func serve(t *testing.T, u user.Info, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if u != nil {
			req = req.WithContext(request.WithUser(req.Context(), u))
		}
		handler.ServeHTTP(w, classified(t, req))
	}))
	t.Cleanup(server.Close)
	return server
}

// front is a server with a forwarder for authenticated requests to the handler behind it.
func front(t *testing.T, u user.Info, behind http.HandlerFunc) *httptest.Server {
	t.Helper()
	back := httptest.NewServer(behind)
	t.Cleanup(back.Close)
	return serve(t, u, NewForwarder("core", toServer{back}, requestmemory.New(0), NewEndings(), aggregatorscheme.Codecs, nil))
}

// frontOfAggregated is a server that proxies jane's requests to the aggregated API server behind it. Some endpoints of that are dead.
func frontOfAggregated(t *testing.T, behind http.HandlerFunc, dead ...string) *httptest.Server {
	t.Helper()
	back := httptest.NewTLSServer(behind)
	t.Cleanup(back.Close)
	return serve(t, jane, third(endpointsAt(t, append(dead, back.Listener.Addr().String())...), apiregistrationv1.ConditionTrue))
}

// third returns the proxy to an API server whose condition has whether it is available.
func third(up Upstream, available apiregistrationv1.ConditionStatus) *Aggregated {
	return NewAggregated(&apiregistrationv1.APIService{
		Spec: apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "third"}},
		Status: apiregistrationv1.APIServiceStatus{
			Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: available}},
		},
	}, up, AggregatedConfig{Tracer: noop.NewTracerProvider(), Serializer: aggregatorscheme.Codecs, Memory: requestmemory.New(0)})
}

// endpoints is an API server at some addresses.
type endpoints struct{ *upstream.Backend }

func (e endpoints) Ready() bool {
	ready, _ := e.Backend.Ready()
	return ready
}

// endpointsAt returns the way to an API server at addresses. Nothing probes it.
func endpointsAt(t *testing.T, addresses ...string) endpoints {
	t.Helper()
	third := upstream.NewAggregated(upstream.Aggregated{
		Name:  "v1.third.example.com",
		Trust: connections.NewFixedTrust(&tls.Config{InsecureSkipVerify: true}),
	})
	third.SetAddresses(addresses)
	return endpoints{third}
}

// classified returns the request as it comes from the door of the aggregator.
func classified(t testing.TB, req *http.Request) *http.Request {
	class, err := routing.Classify(req, routing.Target{Owner: routing.Core})
	assert.NoError(t, err)
	return req.WithContext(class.In(req.Context()))
}

func sendTo(t *testing.T, front *httptest.Server, path string, headers http.Header, seen <-chan http.Header) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+path, nil)
	require.NoError(t, err)
	req.Header = headers.Clone()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	return <-seen
}
