// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tripod-k8s/tripod/internal/pki"
)

// world is a service CA with the aggregator's identity, and servers that it vouches for.
type world struct {
	store    *pki.Store
	ca       *pki.Authority
	identity Identity
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := store.Authority("service-ca", "service-ca")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ca.Ensure("aggregator", pki.Leaf{CommonName: "system:tripod:aggregator", Client: true}); err != nil {
		t.Fatal(err)
	}
	return &world{store: store, ca: ca, identity: Identity{
		CAFile: ca.File(), CertFile: store.CertFile("aggregator"), KeyFile: store.KeyFile("aggregator"),
	}}
}

// serve starts a replica whose certificate is for the given service.
func (w *world) serve(t *testing.T, service string, handler http.HandlerFunc) string {
	t.Helper()
	if _, err := w.ca.Ensure(service, pki.Leaf{CommonName: service, DNSNames: []string{service + ".tripod-system.svc"}, Server: true}); err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(w.store.CertFile(service), w.store.KeyFile(service))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func (w *world) backend(t *testing.T, servers ...string) *Backend {
	t.Helper()
	b, err := New(Core, servers, w.identity)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nothing was accepted
	return "https://" + listener.Addr().String()
}

func do(t *testing.T, b *Backend, method, body string) (string, error) {
	t.Helper()
	var reader io.Reader
	if body != "" {
		// Without a GetBody, as a server receives it.
		reader = io.MultiReader(strings.NewReader(body))
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "/path", reader)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

func TestARequestThatNeverLeftGoesToTheNextReplicaWithItsBody(t *testing.T) {
	w := newWorld(t)
	alive := w.serve(t, Core, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		_, _ = w.Write(append([]byte(req.Method+" "), body...)) // the client checks what it gets
	})
	b := w.backend(t, closedPort(t), alive, closedPort(t))
	for range 6 { // more than once around
		if got, err := do(t, b, http.MethodPost, "content"); err != nil || got != "POST content" {
			t.Fatalf("answer %q, error %v", got, err)
		}
	}
}

func TestAnonymousRequestsDoNotShareAConnectionThatTheirServerCloses(t *testing.T) {
	w := newWorld(t)
	server := w.serve(t, Core, func(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, req.Proto) })
	b := w.backend(t, server)
	for user, want := range map[string]string{"": "HTTP/2.0", "jane": "HTTP/2.0", "system:anonymous": "HTTP/1.1"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/path", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Remote-User", user)
		resp, err := b.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("user %q goes over %s (%v), want %s", user, got, err, want)
		}
	}
}

func TestNoReplicaIsSaidPlainly(t *testing.T) {
	w := newWorld(t)
	_, err := do(t, w.backend(t, closedPort(t), closedPort(t)), http.MethodGet, "")
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || len(unreachable.Failures) != 2 {
		t.Errorf("error is %v, want an UnreachableError with two failures", err)
	}
}

func TestAnotherServiceIsNotTakenForTheBackend(t *testing.T) {
	w := newWorld(t)
	imposter := w.serve(t, Extensions, func(http.ResponseWriter, *http.Request) {
		t.Error("a request reached a server with another service's certificate")
	})
	if _, err := do(t, w.backend(t, imposter), http.MethodGet, ""); err == nil {
		t.Error("the certificate of extensions was accepted for core")
	}
}

func TestARequestThatMayHaveBeenProcessedIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	requests := make(chan struct{}, 10)
	server := w.serve(t, Core, func(http.ResponseWriter, *http.Request) {
		requests <- struct{}{}
		panic(http.ErrAbortHandler)
	})
	if _, err := do(t, w.backend(t, server, server), http.MethodPost, "content"); err == nil {
		t.Error("an aborted request succeeded")
	}
	if n := len(requests); n != 1 {
		t.Errorf("the request was sent %d times", n)
	}
}

func TestReadyFollowsTheProbes(t *testing.T) {
	w := newWorld(t)
	ready := make(chan bool, 1)
	ready <- false
	server := w.serve(t, Core, func(w http.ResponseWriter, req *http.Request) {
		now := <-ready
		ready <- now
		if req.URL.Path != "/readyz" || !now {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	b := w.backend(t, server)
	changed := make(chan struct{}, 100)
	b.Subscribe(func() { changed <- struct{}{} })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()

	<-changed
	if ok, why := b.Ready(); ok || !strings.Contains(why, "500") {
		t.Errorf("ready is %v (%s) while the replica answers 500", ok, why)
	}
	<-ready
	ready <- true
	<-changed
	if ok, why := b.Ready(); !ok {
		t.Errorf("not ready: %s", why)
	}
	stop()
	<-done
}

func TestReadyReplicasComeFirst(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t, "https://127.0.0.1:1", "https://127.0.0.1:2", "https://127.0.0.1:3")
	b.replicas[1].state.Store(&replicaState{ready: true})
	for range 6 {
		order := b.order()
		if len(order) != 3 || order[0] != b.replicas[1] {
			t.Fatalf("%s comes first of %d", order[0].host, len(order))
		}
	}
}
