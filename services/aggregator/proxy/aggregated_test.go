// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections/connectionstest"
)

// third returns the proxy to an API server whose condition says whether it is available.
func third(up Upstream, available apiregistrationv1.ConditionStatus) *Aggregated {
	return NewAggregated(&apiregistrationv1.APIService{
		Spec: apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "third"}},
		Status: apiregistrationv1.APIServiceStatus{
			Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: available}},
		},
	}, up, AggregatedConfig{Tracer: noop.NewTracerProvider(), Serializer: aggregatorscheme.Codecs})
}

// serveThird serves the proxy to requests of jane.
func serveThird(t *testing.T, p *Aggregated) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.ServeHTTP(w, classified(t, req.WithContext(request.WithUser(req.Context(), jane))))
	}))
	t.Cleanup(server.Close)
	return server
}

func TestATunnelToAnAggregatedServerTriesAnotherEndpoint(t *testing.T) {
	behind := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if got := req.Header.Values("X-Remote-User"); len(got) != 1 || got[0] != "jane" {
			t.Errorf("the user is %q", got)
		}
		if req.Header.Get("X-Forwarded-For") != "192.0.2.1, 127.0.0.1" || req.Header.Get("Sec-Websocket-Key") != "key" {
			t.Errorf("headers are %v", req.Header)
		}
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close() //nolint:errcheck // the client closes first
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, buffer) // the client reads its echo
	}))
	defer behind.Close()
	up := endpointsAt(t, connectionstest.ClosedAddress(t), connectionstest.ClosedAddress(t), behind.Listener.Addr().String())
	front := serveThird(t, third(up, apiregistrationv1.ConditionTrue))
	for range 5 {
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // nothing is buffered
		_, err = io.WriteString(conn, "POST /exec?a=b HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: key\r\nX-Remote-User: root\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(conn)
		resp, err := http.ReadResponse(reader, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("answer %v, error %v", resp, err)
		}
		if _, err := io.WriteString(conn, "ping\n"); err != nil {
			t.Fatal(err)
		}
		if echo, err := reader.ReadString('\n'); err != nil || echo != "ping\n" {
			t.Errorf("echo %q, error %v", echo, err)
		}
	}
}

func TestAWatchOfAnAggregatedServerEndsWithoutAnErrorWhenItsServerGoesAway(t *testing.T) {
	for query, broken := range map[string]bool{"watch=1": false, "": true} {
		t.Run(query, func(t *testing.T) {
			behind := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "event\n") // the client reads it
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}))
			defer behind.Close()
			front := serveThird(t, third(endpointsAt(t, behind.Listener.Addr().String()), apiregistrationv1.ConditionTrue))
			resp, err := http.Get(front.URL + "/apis/third.example.com/v1/things?" + query)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // read to its end
			body, err := io.ReadAll(resp.Body)
			if string(body) != "event\n" || (err != nil) != broken {
				t.Errorf("body %q, error %v; want an error: %v", body, err, broken)
			}
		})
	}
}

// answering is an upstream that answers with its name, or fails.
type answering struct {
	ready bool
	err   error
}

func (a answering) Ready() bool { return a.ready }

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("here"))}, nil
}

func TestATunnelIsNotRedirected(t *testing.T) {
	evil := redirecting("https://evil.example.com/")
	front := serveThird(t, third(evil, apiregistrationv1.ConditionTrue))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/exec", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is not read
	if resp.StatusCode < http.StatusInternalServerError || resp.Header.Get("Location") != "" {
		t.Errorf("got %s to %q", resp.Status, resp.Header.Get("Location"))
	}
}

// redirecting is an API server that sends clients elsewhere.
type redirecting string

func (r redirecting) Ready() bool { return true }

func (r redirecting) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "307 Temporary Redirect", StatusCode: http.StatusTemporaryRedirect,
		Header: http.Header{"Location": {string(r)}}, Body: http.NoBody,
	}, nil
}

func TestAnAggregatedServerIsAskedWhenItsConditionOrAnEndpointIsGood(t *testing.T) {
	for name, test := range map[string]struct {
		condition apiregistrationv1.ConditionStatus
		ready     bool
		code      int
	}{
		"both are good":          {apiregistrationv1.ConditionTrue, true, http.StatusOK},
		"the checks may be late": {apiregistrationv1.ConditionTrue, false, http.StatusOK},
		"the condition may be":   {apiregistrationv1.ConditionFalse, true, http.StatusOK},
		"neither is good":        {apiregistrationv1.ConditionFalse, false, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodGet, "/apis/third.example.com/v1/things", nil)
			third(answering{ready: test.ready}, test.condition).ServeHTTP(w, req.WithContext(request.WithUser(context.Background(), jane)))
			if w.Code != test.code {
				t.Errorf("answer is %d: %s", w.Code, w.Body)
			}
		})
	}
}

func TestClientsOfAnAggregatedServerAreToldToRetryOnlyWhatCannotHappenTwice(t *testing.T) {
	unreachable := &upstream.UnreachableError{Backend: "v1.third.example.com", Failures: []string{"refused"}}
	broken := errors.New("connection reset")
	for name, test := range map[string]struct {
		method  string
		upgrade bool
		err     error
		code    int
		retry   string
	}{
		"a read never left":   {http.MethodGet, false, unreachable, http.StatusServiceUnavailable, "1"},
		"a write never left":  {http.MethodPost, false, unreachable, http.StatusServiceUnavailable, "1"},
		"a read broke off":    {http.MethodGet, false, broken, http.StatusServiceUnavailable, "1"},
		"a create broke off":  {http.MethodPost, false, broken, http.StatusBadGateway, ""},
		"a tunnel never left": {http.MethodPost, true, unreachable, http.StatusServiceUnavailable, "1"},
		"a tunnel broke off":  {http.MethodPost, true, broken, http.StatusBadGateway, ""},
		"a WebSocket did":     {http.MethodGet, true, broken, http.StatusBadGateway, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(test.method, "/apis/third.example.com/v1/things", nil)
			if test.upgrade {
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "SPDY/3.1")
			}
			third(answering{ready: true, err: test.err}, apiregistrationv1.ConditionTrue).
				ServeHTTP(w, req.WithContext(request.WithUser(context.Background(), jane)))
			var status metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" {
				t.Fatalf("body is no Status: %s", w.Body)
			}
			if w.Code != test.code || w.Header().Get("Retry-After") != test.retry {
				t.Errorf("%d with Retry-After %q, want %d with %q", w.Code, w.Header().Get("Retry-After"), test.code, test.retry)
			}
		})
	}
}
