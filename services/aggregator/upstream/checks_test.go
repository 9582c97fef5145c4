// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// newAggregated returns a backend that probes serving endpoints only when something asks for it.
func newAggregated(t *testing.T, addresses ...string) *Backend {
	t.Helper()
	b := NewAggregated(Aggregated{
		Name:  "v1.third.example.com",
		Trust: connections.NewFixedTrust(&tls.Config{InsecureSkipVerify: true}),
		Path:  "/apis/third.example.com/v1",
		Sign:  func(*http.Request) {},
	})
	b.checks.servingInterval = time.Hour
	b.SetAddresses(addresses)
	forgetMetrics(t, b)
	return b
}

// serveAggregated starts an endpoint.
func serveAggregated(t *testing.T, http2 bool, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// awaitStates waits until the replicas have these states.
func awaitStates(t *testing.T, b *Backend, changed <-chan struct{}, states map[string]string) {
	t.Helper()
	for {
		var wrong []string
		for _, r := range b.Replicas() {
			if r.State != states[r.Address] {
				wrong = append(wrong, fmt.Sprintf("%s is %s (%s)", r.Address, r.State, r.Message))
			}
		}
		if len(wrong) == 0 {
			return
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatal(strings.Join(wrong, ", "))
		}
	}
}

func changes(b *Backend) <-chan struct{} {
	changed := make(chan struct{}, 1)
	b.Subscribe(func() { signal(changed) })
	return changed
}

func TestAnEndpointThatDiesIsNoticedWithoutARequestAndSoIsItsReturn(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/2": true, "HTTP/1.1 only": false} {
		t.Run(name, func(t *testing.T) {
			well := func(http.ResponseWriter, *http.Request) {}
			dying, other := serveAggregated(t, http2, well), serveAggregated(t, http2, well)
			dies, stays := dying.Listener.Addr().String(), other.Listener.Addr().String()
			b := newAggregated(t, dies, stays)
			changed := changes(b)
			run(t, b)
			awaitStates(t, b, changed, map[string]string{dies: "ready", stays: "ready"})
			require.NoError(t, dying.Listener.Close())
			dying.CloseClientConnections()
			awaitStates(t, b, changed, map[string]string{dies: "refusing", stays: "ready"})

			listener, err := net.Listen("tcp", dies)
			if err != nil {
				t.Skip("the port was taken by somebody else: ", err)
			}
			back := httptest.NewUnstartedServer(http.HandlerFunc(well))
			back.Listener, back.EnableHTTP2 = listener, http2
			back.StartTLS()
			t.Cleanup(back.Close)
			awaitStates(t, b, changed, map[string]string{dies: "ready", stays: "ready"})
		})
	}
}

func TestAnEndpointThatEndsEveryConnectionIsNotCheckedAllTheTime(t *testing.T) {
	var checks atomic.Int64
	server := serveAggregated(t, true, func(w http.ResponseWriter, _ *http.Request) {
		checks.Add(1)
		w.Header().Set("Connection", "close")
	})
	b := newAggregated(t, server.Listener.Addr().String())
	b.checks.pause, b.checks.maxPause = time.Millisecond, 240*time.Hour
	run(t, b)
	// With doubling, it would take days to reach 20 probes from 1 ms. Without, this time would have a hundred.
	time.Sleep(500 * time.Millisecond)
	if n := checks.Load(); n < 2 || n > 20 {
		t.Errorf("it was checked %d times", n)
	}
}

func TestAnEndpointThatAnswers503IsCheckedAtOnce(t *testing.T) {
	var sick atomic.Bool
	server := serveAggregated(t, true, func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	address := server.Listener.Addr().String()
	b := newAggregated(t, address)
	changed := changes(b)
	run(t, b)
	awaitStates(t, b, changed, map[string]string{address: "ready"})
	sick.Store(true)
	if _, err := do(t, b, newRequest(t, http.MethodGet, "")); err != nil {
		t.Error(err)
	}
	awaitStates(t, b, changed, map[string]string{address: "unready"})
	sick.Store(false)
	awaitStates(t, b, changed, map[string]string{address: "ready"})
}

func TestWhatAnAggregatedServerStreamsIsNotHeldBack(t *testing.T) {
	more := make(chan struct{})
	server := serveAggregated(t, true, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first") // the client reads it
		w.(http.Flusher).Flush()
		<-more
	})
	defer close(more)
	b := newAggregated(t, server.Listener.Addr().String())
	resp, err := b.RoundTrip(newRequest(t, http.MethodGet, ""))
	require.NoError(t, err)
	defer resp.Body.Close()
	first := make([]byte, len("first"))
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first" {
		t.Errorf("got %q, %v", first, err)
	}
}

func TestAnAggregatedServerThatHasTooMuchToDoIsSentOnlyReadsElsewhere(t *testing.T) {
	for method, want := range map[string]int64{http.MethodPost: 1, http.MethodGet: 2} {
		var asked atomic.Int64
		busy := func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != "/apis/example.com/v1/widgets" {
				return // a probe
			}
			asked.Add(1)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		first, second := serveAggregated(t, true, busy).Listener.Addr().String(), serveAggregated(t, true, busy).Listener.Addr().String()
		b := newAggregated(t, first, second)
		b.find(first, ready)
		b.find(second, ready)
		req := newRequest(t, method, "")
		req.URL.Path = "/apis/example.com/v1/widgets"
		if _, err := do(t, b, req); err != nil {
			t.Error(err)
		}
		if got := asked.Load(); got != want {
			t.Errorf("%s was sent %d times, want %d", method, got, want)
		}
	}
}

func TestAnAggregatedServerIsSentNoWriteTwice(t *testing.T) {
	for _, fault := range connectionstest.HTTP2Faults {
		t.Run(string(fault), func(t *testing.T) {
			pki := connectionstest.NewPKI(t)
			config := pki.ServerConfig(t, "third.ns.svc")
			bad, good := connectionstest.Serve(t, config, fault), connectionstest.Serve(t, config, connectionstest.None)
			certificate, err := tls.LoadX509KeyPair(pki.CertFile, pki.KeyFile)
			require.NoError(t, err)
			b := newAggregated(t, bad.Address, good.Address)
			b.trust.Set(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}})
			b.find(bad.Address, ready)
			_, err = do(t, b, newRequest(t, http.MethodPost, "content"))
			if processed := bad.Processed() + good.Processed(); processed > 1 {
				t.Errorf("it was processed %d times", processed)
			}
			if err != nil && fault != connectionstest.AmidAnswer && (fault.SaysUnprocessed() || fault.Answers()) {
				t.Errorf("it got no answer: %v", err)
			}
		})
	}
}
