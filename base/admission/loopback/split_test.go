// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/link"
	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// answers returns a server that answers with its name and the credentials that it received.
func answers(name string) roundtrip.Func {
	return func(req *http.Request) (*http.Response, error) {
		return response(http.StatusOK, name+" "+req.Header.Get("Authorization")), nil
	}
}

func response(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// unreachable is the transport to a service that is not there.
func unreachable(t *testing.T) http.RoundTripper {
	t.Helper()
	nowhere, err := rest.TransportFor(link.NewAggregator(nil, trust.Options{}).Config(link.Fail))
	require.NoError(t, err)
	return nowhere
}

// newSplit returns the transport of a service that serves apps/v1, and can reach batch/v1 directly.
func newSplit(t *testing.T, s Split) *http.Client {
	t.Helper()
	self := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "self "+req.Header.Get("Authorization"))
	}))
	t.Cleanup(self.Close)
	s.Self = &rest.Config{Host: self.URL, BearerToken: "secret"}
	s.Serves = func(gv schema.GroupVersion) bool { return gv == schema.GroupVersion{Group: "apps", Version: "v1"} }
	s.Direct = func(gv schema.GroupVersion) http.RoundTripper {
		if gv.Group == "batch" {
			return answers("direct")
		}
		return nil
	}
	config, err := s.Config()
	require.NoError(t, err)
	// As the client of a webhook: what it would connect to is of no importance.
	config.Host = "https://kubernetes.default.svc:443"
	config.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody is there") }
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	return client
}

func get(t *testing.T, client *http.Client, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://kubernetes.default.svc:443"+path, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	assert.Empty(t, resp.Header.Get("Retry-After"), "%s: the client gets Retry-After", path)
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func TestRequestsGoWhereTheyAreServed(t *testing.T) {
	const self = "self Bearer secret"
	client, ownDocuments := newSplit(t, Split{Aggregator: answers("aggregator")}), newSplit(t, Split{Aggregator: answers("aggregator"), OwnOpenAPI: true})
	for path, want := range map[string]string{
		"/apis/apps/v1/deployments":              self,
		"/apis/apps/v1":                          self,
		"/openapi/v3/apis/apps/v1?hash=1":        self,
		"/version":                               self,
		"/healthz":                               self,
		"/apis/apps/v2/deployments":              "aggregator",
		"/apis/example.com/v1/widgets?watch=1":   "aggregator",
		"/openapi/v3/apis/example.com/v1?hash=1": "aggregator",
		"/apis":                                  "aggregator",
		"/apis/":                                 "aggregator",
		"/apis/apps":                             "aggregator",
		"/api":                                   "aggregator",
		"/api/v1/pods":                           "aggregator",
		"/openapi/v3":                            "aggregator",
		"/openapi/v2":                            "aggregator",
		"/apis/batch/v1/jobs":                    "direct",
	} {
		if code, got := get(t, client, path); code != http.StatusOK || got != want {
			t.Errorf("%s is answered %d by %q, want %q", path, code, got, want)
		}
		if strings.HasPrefix(path, "/openapi/v3") && want == "aggregator" && !strings.Contains(path, "example") {
			want = self
		}
		if strings.HasPrefix(path, "/openapi/v2") {
			want = self
		}
		if _, got := get(t, ownDocuments, path); got != want {
			t.Errorf("%s is answered by %q, want %q where own OpenAPI documents are enough", path, got, want)
		}
	}
}

func TestWithoutTheAggregator(t *testing.T) {
	var aggregator http.RoundTripper
	client := newSplit(t, Split{Aggregator: roundtrip.Func(func(req *http.Request) (*http.Response, error) { return aggregator.RoundTrip(req) })})
	unavailable := roundtrip.Func(func(*http.Request) (*http.Response, error) {
		resp := response(http.StatusServiceUnavailable, "")
		resp.Header.Set("Retry-After", "1")
		return resp, nil
	})
	refuses := roundtrip.Func(func(*http.Request) (*http.Response, error) { return response(http.StatusForbidden, ""), nil })
	hangsUp := roundtrip.Func(func(*http.Request) (*http.Response, error) { return nil, io.EOF })
	for _, step := range []struct {
		name       string
		aggregator http.RoundTripper
		path       string
		code       int
	}{
		{"resources of others, never reached", unreachable(t), "/apis/example.com/v1/widgets", http.StatusServiceUnavailable},
		{"discovery, never reached", unreachable(t), "/apis", http.StatusOK},
		{"discovery, starting", unavailable, "/apis", http.StatusOK},
		{"discovery, behind a balancer without servers", hangsUp, "/apis", http.StatusOK},
		{"discovery, refused before it was heard", refuses, "/apis", http.StatusOK},
		{"OpenAPI, starting", unavailable, "/openapi/v3", http.StatusOK},
		{"discovery, there", answers("aggregator"), "/apis", http.StatusOK},
		{"discovery, away", unreachable(t), "/apis", http.StatusServiceUnavailable},
		{"discovery, away for it", unavailable, "/apis", http.StatusServiceUnavailable},
		{"discovery, refused", refuses, "/apis", http.StatusServiceUnavailable},
		{"resources of others, refused", refuses, "/apis/example.com/v1/widgets", http.StatusForbidden},
		{"resources of others, away for it", unavailable, "/apis/example.com/v1/widgets", http.StatusServiceUnavailable},
		{"own resources", unreachable(t), "/apis/apps/v1/deployments", http.StatusOK},
	} {
		aggregator = step.aggregator
		if code, body := get(t, client, step.path); code != step.code {
			t.Errorf("%s: %d %s, want %d", step.name, code, body, step.code)
		}
	}

	aggregator = unreachable(t)
	kubernetes, err := discovery.NewDiscoveryClientForConfigAndClient(&rest.Config{Host: "https://kubernetes.default.svc:443"}, client)
	require.NoError(t, err)
	if _, err := kubernetes.ServerGroups(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("client-go makes of it: %v", err)
	}
}

func TestOtherErrorsStay(t *testing.T) {
	broken := errors.New("connection reset")
	client := newSplit(t, Split{Aggregator: roundtrip.Func(func(*http.Request) (*http.Response, error) { return nil, broken })})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://h/apis/example.com/v1/widgets", nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	assert.ErrorIs(t, err, broken)
}

func TestASilentAggregatorIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		req := &http.Request{URL: &url.URL{Path: "/apis"}}
		began := time.Now()
		resp, err := sendWithin(headerTimeout(req), silent, req.WithContext(t.Context()))
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("got %v, %v", resp, err)
		}
		assert.Equal(t, documentTimeout, time.Since(began))

		// A client that does not wait any more gets no error about a service that is away.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if resp, err := sendWithin(time.Minute, silent, req.WithContext(ctx)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v for a request that was given up", resp, err)
		}
	})
}

func TestAWatchMayLastLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx context.Context
		watch := roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			ctx = req.Context()
			return response(http.StatusOK, "events"), nil
		})
		req := &http.Request{URL: &url.URL{Path: "/apis/example.com/v1/widgets"}}
		resp, err := sendWithin(headerTimeout(req), watch, req.WithContext(t.Context()))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Error("a watch is ended")
		}
		assert.NoError(t, resp.Body.Close())
		if ctx.Err() == nil {
			t.Error("a watch that nobody reads goes on")
		}
	})
}

func TestServed(t *testing.T) {
	apps, widgets := schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v1"}
	served := NewServed(func(gv schema.GroupVersion) bool { return gv == apps })
	if !served.Has(apps) || served.Has(widgets) {
		t.Error("before it is known, another opinion does not count")
	}
	served.Set(&backendv1.Catalog{GroupVersions: []*backendv1.GroupVersion{{Group: "example.com", Version: "v1"}}})
	if served.Has(apps) || !served.Has(widgets) {
		t.Error("the document that is known is not used")
	}
}

func TestALoopbackConfigurationThatIsNoneIsRefused(t *testing.T) {
	for _, host := range []string{"", "://", "host"} {
		if _, err := (Split{Self: &rest.Config{Host: host}}).Config(); err == nil {
			t.Errorf("%q is taken for a URL", host)
		}
	}
}
