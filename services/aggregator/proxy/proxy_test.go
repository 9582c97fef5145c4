// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/net/http/httpguts"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/internal/hop/envelope"
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

// front is a server with a forwarder for authenticated requests to the handler behind it.
func front(t *testing.T, u user.Info, behind http.HandlerFunc) *httptest.Server {
	t.Helper()
	back := httptest.NewServer(behind)
	t.Cleanup(back.Close)
	forwarder := NewForwarder("core", toServer{back}, aggregatorscheme.Codecs, nil)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if u != nil {
			req = req.WithContext(request.WithUser(req.Context(), u))
		}
		forwarder.ServeHTTP(w, classified(t, req))
	}))
	t.Cleanup(front.Close)
	return front
}

// classified returns the request as it comes from the door of the aggregator.
func classified(t testing.TB, req *http.Request) *http.Request {
	class, err := routing.Classify(req, routing.Target{Owner: routing.Core})
	if err != nil {
		t.Error(err)
	}
	return req.WithContext(class.In(req.Context()))
}

// claims are what clients may try.
var claims = map[string]http.Header{
	"nothing claimed":     {},
	"plain":               {"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}},
	"uid and extra":       {"X-Remote-Uid": {"0"}, "X-Remote-Extra-Admin": {"yes"}},
	"lower case":          {"x-remote-user": {"root"}, "x-remote-group": {"system:masters"}},
	"underscores":         {"X_Remote_User": {"root"}, "X-Remote_Group": {"system:masters"}},
	"token":               {"Authorization": {"Bearer secret"}},
	"user dropped by hop": {"Connection": {"X-Remote-User, X-Remote-Group, X-Remote-Uid, X-Remote-Extra-Example.com%2fscopes"}},
	"envelope":            {"Tripod-Envelope": {"CgYKBHJvb3Q"}},
	"envelope, spelled":   {"tripod_envelope": {"CgYKBHJvb3Q"}},
	"envelope dropped":    {"Connection": {"Tripod-Envelope"}, "Tripod-Envelope": {"CgYKBHJvb3Q"}},
	"upgrade":             {"Connection": {"Upgrade, Tripod-Envelope"}, "Upgrade": {"websocket"}, "X-Remote-User": {"root"}},
}

// send sends a request with the headers, and returns those that arrive at the end of the way.
func send(t *testing.T, front *httptest.Server, headers http.Header, seen <-chan http.Header) http.Header {
	t.Helper()
	return sendTo(t, front, forObjects, headers, seen)
}

// Paths of a request for objects, and of another one.
const (
	forObjects = "/api/v1/pods"
	forOthers  = "/version"
)

func sendTo(t *testing.T, front *httptest.Server, path string, headers http.Header, seen <-chan http.Header) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = headers.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // has no body
	return <-seen
}

func TestTheBackendSeesTheAuthenticatedUserAndNoOther(t *testing.T) {
	for name, claimed := range claims {
		for _, path := range []string{forObjects, forOthers} {
			t.Run(name+" at "+path, func(t *testing.T) {
				seen := make(chan http.Header, 1)
				server := front(t, jane, func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header })
				expectJane(t, sendTo(t, server, path, claimed, seen))
			})
		}
	}
}

// expectJane expects headers that name jane, and nobody else.
func expectJane(t *testing.T, got http.Header) {
	t.Helper()
	values := got[envelope.Header]
	if len(values) != 1 {
		t.Fatalf("%d envelopes", len(values))
	}
	e, err := envelope.Decode(values[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(jane, envelope.ToUser(e.GetUser())); diff != "" || e.GetSelf() {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if host, _, err := net.SplitHostPort(e.GetClientAddress()); err != nil || (host != "127.0.0.1" && host != "192.0.2.1") {
		t.Errorf("address of the client is %q", e.GetClientAddress())
	}
	delete(got, envelope.Header)
	if others := identityOf(got); len(others) > 0 {
		t.Errorf("other identities arrive: %v", others)
	}
}

func TestAnAggregatedServerSeesTheAuthenticatedUserAndNoOther(t *testing.T) {
	want := map[string][]string{
		"x-remote-user":                       {"jane"},
		"x-remote-uid":                        {"42"},
		"x-remote-group":                      {"devs", "system:authenticated"},
		"x-remote-extra-example.com%2fscopes": {"a", "b"},
	}
	for name, claimed := range claims {
		t.Run(name, func(t *testing.T) {
			seen := make(chan http.Header, 1)
			behind := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header }))
			defer behind.Close()
			got := send(t, frontOfAggregated(t, jane, behind), claimed, seen)
			if diff := cmp.Diff(want, identityOf(got)); diff != "" {
				t.Errorf("identity headers (-want +got):\n%s", diff)
			}
		})
	}
}

// frontOfAggregated is a server that proxies authenticated requests to the aggregated API server behind it.
func frontOfAggregated(t *testing.T, u user.Info, behind *httptest.Server) *httptest.Server {
	t.Helper()
	service := &apiregistrationv1.APIService{
		Spec: apiregistrationv1.APIServiceSpec{
			Service:               &apiregistrationv1.ServiceReference{Namespace: "default", Name: "third", Port: ptr.To[int32](443)},
			InsecureSkipTLSVerify: true,
		},
		Status: apiregistrationv1.APIServiceStatus{
			Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue}},
		},
	}
	third := NewAggregated(service, endpointsAt(t, behind.Listener.Addr().String()), AggregatedConfig{
		Tracer:     noop.NewTracerProvider(),
		Serializer: aggregatorscheme.Codecs,
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		third.ServeHTTP(w, classified(t, req.WithContext(request.WithUser(req.Context(), u))))
	}))
	t.Cleanup(server.Close)
	return server
}

// endpoints is an API server at some addresses.
type endpoints struct{ *upstream.Backend }

func (e endpoints) Ready() bool {
	ready, _ := e.Backend.Ready()
	return ready
}

// endpointsAt returns the way to an API server at addresses. Nobody looks after it.
func endpointsAt(t *testing.T, addresses ...string) endpoints {
	t.Helper()
	third := upstream.NewAggregated(upstream.Aggregated{
		Name:  "v1.third.example.com",
		Trust: connections.NewFixedTrust(&tls.Config{InsecureSkipVerify: true}), //nolint:gosec // the server is the test's
	})
	third.SetAddresses(addresses)
	return endpoints{third}
}

// identityOf returns the headers by which somebody could be taken for somebody, in lower case: HTTP does not keep it.
func identityOf(h http.Header) map[string][]string {
	identity := map[string][]string{}
	for name, values := range h {
		spelled := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if strings.HasPrefix(spelled, "x-remote-") || spelled == "authorization" || spelled == "tripod-envelope" {
			identity[strings.ToLower(name)] = values
		}
	}
	return identity
}

func TestHeadersAreNotDroppedByTheClient(t *testing.T) {
	seen := make(chan http.Header, 1)
	server := front(t, jane, func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header })
	for _, path := range []string{forObjects, forOthers} {
		got := sendTo(t, server, path, http.Header{
			"Connection": {"Impersonate-User, Keep-Alive"}, "Impersonate-User": {"joe"}, "Keep-Alive": {"1"},
			"Forwarded": {"for=1.2.3.4"}, "X-Forwarded-Uri": {"/a"}, "Te": {"trailers, gzip"}, "Proxy-Connection": {"a"},
		}, seen)
		for name, want := range map[string]string{
			"Impersonate-User": "joe", "Keep-Alive": "", "Forwarded": "for=1.2.3.4", "X-Forwarded-Uri": "/a", "Te": "trailers", "Proxy-Connection": "",
		} {
			if got.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got.Get(name), want)
			}
		}
	}
}

func TestTheBackendLearnsWhatAuthenticationFound(t *testing.T) {
	seen := make(chan http.Header, 1)
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header }))
	defer back.Close()
	forwarder := NewForwarder("core", toServer{back}, aggregatorscheme.Codecs, nil)
	authenticated := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		warning.AddWarning(req.Context(), "", "old token")
		audit.AddAuditAnnotation(req.Context(), "example.com/token", "old")
		forwarder.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), jane)))
	})
	server := httptest.NewServer(genericapifilters.WithAuditInit(WithWarnings(authenticated)))
	defer server.Close()
	got := send(t, server, http.Header{"Audit-Id": {"7"}}, seen)
	e, err := envelope.Decode(got.Get(envelope.Header))
	if err != nil {
		t.Fatal(err)
	}
	if e.GetAuditAnnotations()["example.com/token"] != "old" || len(e.GetWarnings()) != 1 || e.GetWarnings()[0].GetText() != "old token" {
		t.Errorf("envelope is %v", e)
	}
	if id := got.Get("Audit-Id"); id != "7" {
		t.Errorf("Audit-Id is %q", id)
	}
}

// FuzzHeaders looks for a header by which the backend sees somebody else.
func FuzzHeaders(f *testing.F) {
	for _, headers := range claims {
		for name, values := range headers {
			f.Add(name, values[0], "Connection", name)
		}
	}
	seen := make(chan http.Header, 1)
	transport := roundTripper(func(req *http.Request) (*http.Response, error) {
		seen <- req.Header
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	})
	forwarder := NewForwarder("core", transport, aggregatorscheme.Codecs, nil)
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		for _, path := range []string{forObjects, forOthers} {
			req := httptest.NewRequest(http.MethodGet, path, nil)
			req = classified(t, req.WithContext(request.WithUser(req.Context(), jane)))
			for name, value := range map[string]string{name1: value1, name2: value2} {
				if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
					return // refused by the HTTP server
				}
				req.Header.Add(name, value)
			}
			w := httptest.NewRecorder()
			forwarder.ServeHTTP(w, req)
			select {
			case got := <-seen:
				expectJane(t, got)
			default:
				if w.Code == http.StatusOK {
					t.Error("it was not forwarded")
				}
			}
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestImpersonationIsLeftToTheBackend(t *testing.T) {
	seen := make(chan http.Header, 1)
	server := front(t, jane, func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Impersonate-User", "joe")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // has no body
	if got := (<-seen).Get("Impersonate-User"); got != "joe" {
		t.Errorf("Impersonate-User is %q", got)
	}
}

func TestARequestWithoutAUserIsNotForwarded(t *testing.T) {
	server := front(t, nil, func(http.ResponseWriter, *http.Request) { t.Error("it was forwarded") })
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // not read
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("answer is %s", resp.Status)
	}
}

func TestTheRequestArrivesAsItWasSent(t *testing.T) {
	type arrived struct{ Method, URI, Body, Agent, Forwarded string }
	seen := make(chan arrived, 1)
	server := front(t, jane, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		seen <- arrived{req.Method, req.RequestURI, string(body), req.UserAgent(), req.Header.Get("X-Forwarded-For")}
		w.Header().Set("Audit-Id", "1")
		w.WriteHeader(http.StatusTeapot)
	})
	const uri = "/api/v1/namespaces/a%2Fb/pods?labelSelector=a%3Db;c&watch"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL+uri, strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "kubectl")
	req.Header.Set("X-Forwarded-For", "10.0.0.1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // has no body
	want := arrived{http.MethodPatch, uri, "content", "kubectl", "10.0.0.1"}
	if diff := cmp.Diff(want, <-seen); diff != "" {
		t.Errorf("(-sent +arrived):\n%s", diff)
	}
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("Audit-Id") != "" {
		t.Errorf("answer is %s with Audit-Id %q, which the aggregator sets itself", resp.Status, resp.Header.Get("Audit-Id"))
	}
}

func TestEventsAreForwardedOneByOne(t *testing.T) {
	next := make(chan string)
	server := front(t, jane, func(w http.ResponseWriter, _ *http.Request) {
		for event := range next {
			_, _ = io.WriteString(w, event+"\n") // the client waits for it
			w.(http.Flusher).Flush()
		}
	})
	defer close(next)
	go func() { next <- "first" }()
	resp, err := http.Get(server.URL + "/api/v1/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the handler ends with the test
	events := bufio.NewScanner(resp.Body)
	for _, want := range []string{"first", "second"} {
		if !events.Scan() || events.Text() != want {
			t.Fatalf("event %q, error %v", events.Text(), events.Err())
		}
		if want == "first" {
			next <- "second"
		}
	}
}

func TestAWatchEndsWithoutAnErrorWhenItsBackendGoesAway(t *testing.T) {
	for url, broken := range map[string]bool{"/api/v1/pods?watch=1": false, forOthers: true} {
		t.Run(url, func(t *testing.T) {
			back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "event\n") // the client reads it
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}))
			defer back.Close()
			forwarder := NewForwarder("core", toServer{back}, aggregatorscheme.Codecs, nil)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				forwarder.ServeHTTP(w, classified(t, req.WithContext(request.WithUser(req.Context(), jane))))
			}))
			defer front.Close()

			resp, err := http.Get(front.URL + url)
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

func TestUpgradedConnectionsPassInBothDirections(t *testing.T) {
	server := front(t, jane, func(w http.ResponseWriter, req *http.Request) {
		if e, err := envelope.Decode(req.Header.Get(envelope.Header)); err != nil || e.GetUser().GetName() != "jane" {
			t.Errorf("sender is %v, %v", e, err)
		}
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close() //nolint:errcheck // the client closes first
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		_, _ = io.Copy(conn, buffer) // the client reads its echo
	})
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is buffered
	_, err = io.WriteString(conn, "POST /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
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

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestClientsAreToldToRetryOnlyWhatCannotHappenTwice(t *testing.T) {
	unreachable := &upstream.UnreachableError{Backend: "core", Failures: []string{"refused"}}
	broken := errors.New("connection reset")
	for name, test := range map[string]struct {
		method string
		err    error
		code   int
		retry  string
	}{
		"a read never left":   {http.MethodGet, unreachable, http.StatusServiceUnavailable, "1"},
		"a write never left":  {http.MethodPost, unreachable, http.StatusServiceUnavailable, "1"},
		"a read broke off":    {http.MethodGet, broken, http.StatusServiceUnavailable, "1"},
		"a create broke off":  {http.MethodPost, broken, http.StatusBadGateway, ""},
		"a patch broke off":   {http.MethodPatch, broken, http.StatusBadGateway, ""},
		"a removal broke off": {http.MethodDelete, broken, http.StatusBadGateway, ""},
	} {
		t.Run(name, func(t *testing.T) {
			forwarder := NewForwarder("core", failing{test.err}, aggregatorscheme.Codecs, nil)
			w := httptest.NewRecorder()
			req := httptest.NewRequest(test.method, "/api/v1/pods", nil)
			forwarder.ServeHTTP(w, req.WithContext(request.WithUser(context.Background(), jane)))

			var status metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" {
				t.Fatalf("body is no Status: %s", w.Body)
			}
			if w.Code != test.code || int(status.Code) != test.code || w.Header().Get("Retry-After") != test.retry {
				t.Errorf("%d with Retry-After %q (%+v), want %d with %q", w.Code, w.Header().Get("Retry-After"), status, test.code, test.retry)
			}
		})
	}
}

func TestAClientThatWentAwayGetsNoAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(request.WithUser(context.Background(), jane))
	cancel()
	defer func() {
		if recovered := recover(); recovered != http.ErrAbortHandler { //nolint:errorlint // net/http compares so
			t.Errorf("recovered %v, want http.ErrAbortHandler", recovered)
		}
	}()
	NewForwarder("core", failing{context.Canceled}, aggregatorscheme.Codecs, nil).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
}

func FuzzHeadersToAggregated(f *testing.F) {
	f.Add("X-Remote-User", "root")
	f.Add("x_remote_group", "system:masters")
	f.Add("X-Remote-Extra-Key", "v")
	f.Fuzz(func(t *testing.T, name, value string) {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header[name] = []string{value}
		req.Header.Add(name, value)
		setUser(req, jane)
		for got, values := range identityOf(req.Header) {
			switch http.CanonicalHeaderKey(got) {
			case "X-Remote-User", "X-Remote-Uid":
				if len(values) != 1 || values[0] != "jane" && values[0] != "42" {
					t.Errorf("%s is %q", got, values)
				}
			case "X-Remote-Group":
				if len(values) != 2 {
					t.Errorf("groups are %q", values)
				}
			default:
				if !strings.HasPrefix(strings.ToLower(got), "x-remote-extra-example.com") || len(values) != 2 {
					t.Errorf("%s: %q", got, values)
				}
			}
		}
	})
}
