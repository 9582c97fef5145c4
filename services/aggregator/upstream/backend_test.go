// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const coreServerName = "core.tripod-system.svc"

// serve starts a replica of core, and returns its address.
func serve(t testing.TB, pki *connectionstest.PKI, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = pki.ServerConfig(t, coreServerName)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// serveEcho starts a replica that answers with "METHOD BODY".
func serveEcho(t testing.TB, pki *connectionstest.PKI) string {
	return serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		_, _ = w.Write(append([]byte(req.Method+" "), body...)) // the client checks the answer
	})
}

func newBackend(t testing.TB, pki *connectionstest.PKI, addresses ...string) *Backend {
	t.Helper()
	var servers []string
	for _, address := range addresses {
		servers = append(servers, "https://"+address)
	}
	b, err := New(Config{
		Name: Core, Servers: servers, Trust: trust.Options{CAFile: pki.CAFile, CertFile: pki.CertFile, KeyFile: pki.KeyFile}, SharedWatches: true,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, e := range b.endpoints {
			e.pool.Break()
		}
	})
	forgetMetrics(t, b)
	return b
}

// forgetMetrics deletes the metrics of a backend's endpoints when the test ends. The kernel may give their ports to servers of later tests.
func forgetMetrics(t testing.TB, b *Backend) {
	t.Cleanup(func() {
		for _, e := range b.endpoints {
			e.metrics.delete()
		}
	})
}

// find sets the result of the last probe of a replica.
func (b *Backend) find(address string, c condition) {
	b.update(b.endpoints[address], "test", func(h *health) { h.condition = c })
}

// run runs the backend until the test ends.
func run(t *testing.T, b *Backend) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

func newRequest(t testing.TB, method, body string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		// A request at a server has no GetBody.
		reader = io.MultiReader(strings.NewReader(body))
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "/path", reader)
	require.NoError(t, err)
	return req
}

// by returns the request with a user as its sender.
func by(name string, req *http.Request) *http.Request {
	return req.WithContext(request.WithUser(req.Context(), &user.DefaultInfo{Name: name}))
}

// classified returns the request as the handler chain of the aggregator classifies it.
func classified(t testing.TB, req *http.Request, target routing.Target) *http.Request {
	t.Helper()
	class, err := routing.Classify(req, target)
	require.NoError(t, err)
	return req.WithContext(class.In(req.Context()))
}

func do(t testing.TB, b *Backend, req *http.Request) (string, error) {
	t.Helper()
	resp, err := b.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

func TestARequestThatNeverLeftGoesToTheNextReplicaWithItsBody(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	b := newBackend(t, pki, connectionstest.ClosedAddress(t), serveEcho(t, pki), connectionstest.ClosedAddress(t))
	for range 6 {
		if got, err := do(t, b, newRequest(t, http.MethodPost, "content")); err != nil || got != "POST content" {
			t.Fatalf("answer %q, error %v", got, err)
		}
	}
}

func TestAnonymousRequestsDoNotShareAConnectionThatTheirServerCloses(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	b := newBackend(t, pki, serve(t, pki, func(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, req.Proto) }))
	for name, want := range map[string]string{"": "HTTP/2.0", "jane": "HTTP/2.0", user.Anonymous: "HTTP/1.1"} {
		if got, err := do(t, b, by(name, newRequest(t, http.MethodPost, ""))); err != nil || got != want {
			t.Errorf("user %q goes over %s (%v), want %s", name, got, err, want)
		}
	}
}

func TestAnonymousRequestsMakeFewConnections(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	b := newBackend(t, pki, serve(t, pki, func(_ http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			asked <- struct{}{}
			<-answer
		}
	}))
	var waiting sync.WaitGroup
	for range connections.MaxFew {
		waiting.Go(func() {
			_, err := do(t, b, by(user.Anonymous, newRequest(t, http.MethodPost, "")))
			assert.NoError(t, err)
		})
		<-asked
	}
	_, err := do(t, b, by(user.Anonymous, newRequest(t, http.MethodGet, "")))
	var unreachable *UnreachableError
	require.ErrorAs(t, err, &unreachable)
	_, err = do(t, b, by("jane", newRequest(t, http.MethodGet, "")))
	require.NoError(t, err, "others go on")
	close(answer)
	waiting.Wait()
	_, err = do(t, b, by(user.Anonymous, newRequest(t, http.MethodGet, "")))
	require.NoError(t, err, "then there is a connection again")
}

func TestNoReplicaIsReportedPlainly(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	_, err := do(t, newBackend(t, pki, connectionstest.ClosedAddress(t), connectionstest.ClosedAddress(t)), newRequest(t, http.MethodGet, ""))
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || len(unreachable.Failures) != 2 {
		t.Errorf("error is %v, want an UnreachableError with two failures", err)
	}
	_, err = do(t, newBackend(t, pki), newRequest(t, http.MethodGet, ""))
	if !errors.As(err, &unreachable) || len(unreachable.Failures) != 0 {
		t.Errorf("error is %v, want an UnreachableError without failures", err)
	}
}

func TestAnotherServiceIsNotTakenForTheBackend(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	imposter := connectionstest.Serve(t, pki.ServerConfig(t, "extensions.tripod-system.svc"), connectionstest.None)
	if _, err := do(t, newBackend(t, pki, imposter.Address), newRequest(t, http.MethodGet, "")); err == nil || imposter.Processed() > 0 {
		t.Error("the certificate of extensions was accepted for core")
	}
}

func TestReadyFollowsTheProbes(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	ready := make(chan bool, 1)
	ready <- false
	b := newBackend(t, pki, serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		now := <-ready
		ready <- now
		if req.URL.Path != "/readyz" || !now {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	changed := make(chan struct{}, 100)
	b.Subscribe(func() { changed <- struct{}{} })
	run(t, b)

	<-changed
	if ok, why := b.Ready(); ok || !strings.Contains(why, "500") {
		t.Errorf("ready is %v (%s) while the replica answers 500", ok, why)
	}
	if err := b.ReadyOnce(); err == nil {
		t.Error("it was never ready")
	}
	<-ready
	ready <- true
	<-changed
	if ok, why := b.Ready(); !ok {
		t.Errorf("not ready: %s", why)
	}
	assert.NoError(t, b.ReadyOnce())
}

func TestRequestsGoToReplicasThatServe(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	var addresses []string
	for range 3 {
		addresses = append(addresses, connectionstest.Serve(t, pki.ServerConfig(t, coreServerName), connectionstest.None).Address)
	}
	b := newBackend(t, pki, addresses...)
	b.find(addresses[0], unready)
	b.find(addresses[1], ready)
	b.find(addresses[2], ready)
	b.SetDraining(addresses[2], true)
	for range 6 {
		if e := b.pick(); e.address != addresses[1] {
			t.Fatalf("it is %s, %s", e.address, e.health.rank())
		}
	}
	b.find(addresses[1], refusing)
	if e := b.pick(); e.address != addresses[2] {
		t.Errorf("without one that serves it is %s, %s", e.address, e.health.rank())
	}
	b.SetDraining(addresses[2], false)
	b.find(addresses[2], silent)
	if e := b.pick(); e.address != addresses[0] {
		t.Errorf("when all look down it is %s, %s", e.address, e.health.rank())
	}
}

// pick returns a replica for a request.
func (b *Backend) pick() *endpoint {
	return (&call{backend: b}).choose()
}

func TestAReplicaThatIsLostComesBackByAProbe(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	config := pki.ServerConfig(t, coreServerName)
	lame := connectionstest.Serve(t, config, connectionstest.None)
	well := connectionstest.Serve(t, config, connectionstest.None)
	b := newBackend(t, pki, lame.Address, well.Address)
	changed := make(chan struct{}, 100)
	b.Subscribe(func() { changed <- struct{}{} })
	run(t, b)
	awaitRank := func(address string, want rank) {
		t.Helper()
		for {
			b.mu.Lock()
			got := b.endpoints[address].health.rank()
			b.mu.Unlock()
			if got == want {
				return
			}
			select {
			case <-changed:
			case <-time.After(time.Millisecond): // subscribers are not notified of an ejection
			}
		}
	}
	awaitRank(lame.Address, rankServing)
	awaitRank(well.Address, rankServing)
	lame.SetFault(connectionstest.BeforeHandshake)
	lame.CloseConnections()
	awaitRank(lame.Address, rankRefusing)
	lame.SetFault(connectionstest.None)
	awaitRank(lame.Address, rankServing)
}

func TestAReplicaThatIsRemovedFinishesItsRequests(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	leaving := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/readyz" {
			return
		}
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "answer")
	})
	b := newBackend(t, pki, leaving)
	run(t, b)
	e := b.endpoints[leaving]
	var requests sync.WaitGroup
	requests.Go(func() {
		if got, err := do(t, b, newRequest(t, http.MethodGet, "")); err != nil || got != "answer" {
			t.Errorf("answer %q, error %v", got, err)
		}
	})
	<-arrived
	require.NoError(t, b.SetServers([]string{"https://" + serveEcho(t, pki)}))
	if got, err := do(t, b, newRequest(t, http.MethodPost, "")); err != nil || got != "POST " {
		t.Errorf("answer %q, error %v", got, err)
	}
	close(release)
	requests.Wait()
	for e.load.InFlight(0)+e.load.InFlight(1) != 0 {
		time.Sleep(time.Millisecond)
	}
}
