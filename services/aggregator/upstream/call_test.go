// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
)

// throttling starts a replica that answers 429 and counts its requests.
func throttling(t *testing.T, pki *connectionstest.PKI, requests *atomic.Int64, retryAfter string) string {
	return serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, req.Body)
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	})
}

func TestThrottledRequestsAreTriedOnAnotherReplicaOnce(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	tests := []struct {
		name       string
		retryAfter string
		// the number of replicas that throttle, and whether another one exists, and is ready
		throttling        int
		another, unready  bool
		subresource, body string
		want              int
		wantRequests      int64
	}{
		{name: "another one", retryAfter: "1", throttling: 1, another: true, body: "content", want: 200, wantRequests: 1},
		{name: "no other one", retryAfter: "1", throttling: 1, want: 429, wantRequests: 1},
		{name: "another one that is not ready", retryAfter: "1", throttling: 1, another: true, unready: true, want: 429, wantRequests: 1},
		{name: "without Retry-After", throttling: 1, another: true, want: 429, wantRequests: 1},
		{name: "all of them", retryAfter: "1", throttling: 3, want: 429, wantRequests: 2},
		{name: "an eviction that is not allowed", retryAfter: "1", throttling: 1, another: true, subresource: "eviction", want: 429, wantRequests: 1},
		{name: "an answer of a pod", retryAfter: "1", throttling: 1, another: true, subresource: "proxy", want: 429, wantRequests: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var requests atomic.Int64
			var addresses []string
			for range test.throttling {
				addresses = append(addresses, throttling(t, pki, &requests, test.retryAfter))
			}
			if test.another {
				addresses = append(addresses, serveEcho(t, pki))
			}
			b := newBackend(t, pki, addresses...)
			for i, address := range addresses {
				c := ready
				if i == test.throttling && test.unready {
					c = unready
				}
				b.find(address, c)
			}
			if test.another && !test.unready {
				// The other replica is busy, so the call asks the throttling one first.
				for range 3 {
					b.endpoints[addresses[test.throttling]].load.Begin(balance.Short)
					b.endpoints[addresses[test.throttling]].load.Begin(balance.Watch)
				}
			}
			req := newRequest(t, http.MethodPost, test.body)
			req.URL.Path = "/api/v1/namespaces/a/pods/b/" + test.subresource
			resp, err := b.RoundTrip(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			if resp.StatusCode != test.want || err != nil || requests.Load() != test.wantRequests {
				t.Errorf("answer is %s after %d requests, error %v", resp.Status, requests.Load(), err)
			}
			if resp.StatusCode == http.StatusOK && string(answer) != "POST content" {
				t.Errorf("answer is %q", answer)
			}
		})
	}
}

func TestNobodyWaitsForAFrozenReplicaIfAnotherServes(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	frozen, other := silentAddress(t), serveEcho(t, pki)
	b := newBackend(t, pki, frozen, other)
	b.update(b.endpoints[frozen], "test", func(h *health) { h.condition, h.frozen = silent, true })
	b.find(other, ready)
	for range 20 {
		_, err := do(t, b, newRequest(t, http.MethodGet, ""))
		require.NoError(t, err)
	}
	b.update(b.endpoints[other], "test", func(h *health) { h.condition, h.frozen = silent, true })
	assert.NotNil(t, b.pick(), "both may only be busy")
}

func TestASilentReplicaThatAnswersNoPingIsFrozen(t *testing.T) {
	t.Parallel()
	b := newBackend(t, connectionstest.NewPKI(t), silentAddress(t))
	run(t, b)
	require.Eventually(t, func() bool { return b.roster.Load().tiers[0].rank == rankFrozen }, time.Minute, 10*time.Millisecond)
}

func TestAThrottledRequestThatThenGetsLostIsNotReportedAsThrottled(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	var requests atomic.Int64
	first := throttling(t, pki, &requests, "1")
	second := connectionstest.Serve(t, pki.ServerConfig(t, coreServerName), connectionstest.AfterBody)
	b := newBackend(t, pki, first, second.Address)
	b.find(first, ready)
	b.find(second.Address, ready)
	b.endpoints[second.Address].load.Begin(balance.Short)
	b.endpoints[second.Address].load.Begin(balance.Short)
	if _, err := do(t, b, newRequest(t, http.MethodPost, "content")); err == nil {
		t.Error("it is answered")
	}
	if requests.Load() != 1 || second.Processed() != 1 {
		t.Errorf("%d and %d requests", requests.Load(), second.Processed())
	}
}

func TestReadsAreSentAgainToTheOnlyReplica(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	server := connectionstest.Serve(t, pki.ServerConfig(t, coreServerName), connectionstest.None)
	b := newBackend(t, pki, server.Address)
	b.find(server.Address, ready)
	for range 20 {
		if _, err := do(t, b, newRequest(t, http.MethodGet, "")); err != nil {
			t.Fatal(err)
		}
		// As when the replica restarts.
		server.CloseConnections()
	}
}

func TestTheBudgetEndsRetries(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	server := connectionstest.Serve(t, pki.ServerConfig(t, coreServerName), connectionstest.AfterHeaders)
	begun := time.Now()
	b := newBackend(t, pki, server.Address)
	const requests = 300
	for range requests {
		_, _ = do(t, b, newRequest(t, http.MethodGet, "")) // it fails
	}
	// The retries saved at the start, a fifth of the requests, and some for the time.
	most := requests + firstRetries + requests*retryShare + time.Since(begun).Seconds()*minRetryRate
	if n := server.Processed(); n < requests+firstRetries/2 || float64(n) > most { // one user may take half
		t.Errorf("%d requests were sent %d times", requests, n)
	}
}

func TestAReplicaThatCannotBeConnectedToCostsNoBudget(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	dead, alive := connectionstest.ClosedAddress(t), serveEcho(t, pki)
	b := newBackend(t, pki, dead, alive)
	for b.budget.withdraw("") {
		continue
	}
	for range 20 {
		b.find(dead, ready)
		b.update(b.endpoints[dead], "test", func(h *health) { h.ejected = false })
		if _, err := do(t, b, newRequest(t, http.MethodPost, "content")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAReplicaThatHangsIsWaitedForIfNoneIsBetter has replicas that accept connections and send nothing, like a busy one.
func TestAReplicaThatHangsIsWaitedForIfNoneIsBetter(t *testing.T) {
	t.Parallel()
	b := newBackend(t, connectionstest.NewPKI(t), silentAddress(t), silentAddress(t), silentAddress(t))
	for address := range b.endpoints {
		b.find(address, silent)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // longer than a handshake may take if another replica is better
	defer cancel()
	_, err := do(t, b, newRequest(t, http.MethodPost, "content").WithContext(ctx))
	var unreachable *UnreachableError
	if err == nil || errors.As(err, &unreachable) || ctx.Err() == nil {
		t.Errorf("it did not wait until its client gave up: %v", err)
	}
}

func TestAFailingReplicaIsDoubted(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	tests := []struct {
		fault connectionstest.Fault
		want  rank
	}{
		{connectionstest.None, rankServing},
		{connectionstest.BeforeHandshake, rankEjected},
		{connectionstest.AfterHeaders, rankEjected},
		{connectionstest.GoAwayBelow, rankServing},
		{connectionstest.ResetInternal, rankServing},
	}
	for _, test := range tests {
		t.Run(string(test.fault), func(t *testing.T) {
			server := connectionstest.Serve(t, pki.ServerConfig(t, coreServerName), test.fault)
			b := newBackend(t, pki, server.Address)
			b.find(server.Address, ready)
			_, _ = do(t, b, newRequest(t, http.MethodPost, "")) // most of them fail
			assert.Equal(t, test.want, b.endpoints[server.Address].health.rank())
			if ok, why := b.Ready(); !ok {
				t.Errorf("the backend is not ready, without a probe: %s", why)
			}
		})
	}
}

func TestTheAnswerDoesNotEndTheBody(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	const lines = 20000
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Log(err) // HTTP/2 is
		}
		w.(http.Flusher).Flush() // the answer begins before the body of the request ends
		in := bufio.NewScanner(req.Body)
		for in.Scan() {
			fmt.Fprintln(w, in.Text())
			w.(http.Flusher).Flush()
		}
	})
	b := newBackend(t, pki, address)
	proxy := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: b, FlushInterval: -1}
	front := httptest.NewUnstartedServer(proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	defer front.Close()

	body, writer := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/api/v1/namespaces/a/services/b/proxy/", body)
	require.NoError(t, err)
	resp, err := front.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	go func() {
		for range lines {
			fmt.Fprintln(writer, "line")
		}
		_ = writer.Close()
	}()
	answer, err := io.ReadAll(resp.Body)
	if want := strings.Repeat("line\n", lines); err != nil || string(answer) != want {
		t.Errorf("answer has %d bytes of %d, error %v", len(answer), len(want), err)
	}
}

func TestRequestsAreInFlightUntilTheirAnswerEnds(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	release := make(chan struct{})
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-req.Context().Done():
		}
		_, _ = io.WriteString(w, "answer")
	})
	b := newBackend(t, pki, address)
	load := b.endpoints[address].load
	expect := func(what string, short, watches int64) {
		t.Helper()
		if load.InFlight(balance.Short) != short || load.InFlight(balance.Watch) != watches {
			t.Errorf("%s: %d requests and %d watches", what, load.InFlight(balance.Short), load.InFlight(balance.Watch))
		}
	}
	read, err := b.RoundTrip(newRequest(t, http.MethodPost, "")) // not a read, because the aggregator waits for its whole answer
	require.NoError(t, err)
	req := newRequest(t, http.MethodGet, "")
	req.URL.Path, req.URL.RawQuery = "/api/v1/pods", "watch=true"
	watch, err := b.RoundTrip(req)
	require.NoError(t, err)
	expect("while they are answered", 1, 1)
	_ = watch.Body.Close()
	expect("after a watch was closed", 1, 0)
	close(release)
	if _, err := io.ReadAll(read.Body); err != nil {
		t.Fatal(err)
	}
	expect("after an answer was read", 0, 0)
	_ = read.Body.Close()
	expect("and closed", 0, 0)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.RoundTrip(newRequest(t, http.MethodGet, "").WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	expect("after one that was given up", 0, 0)
}

func TestRequestsAreSharedByThoseThatServe(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	counts := make([]atomic.Int64, 3)
	var addresses []string
	for i := range counts {
		addresses = append(addresses, serve(t, pki, func(http.ResponseWriter, *http.Request) { counts[i].Add(1) }))
	}
	b := newBackend(t, pki, addresses...)
	for _, address := range addresses {
		b.find(address, ready)
	}
	for range 300 {
		if _, err := do(t, b, newRequest(t, http.MethodGet, "")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range counts {
		if n := counts[i].Load(); n < 50 {
			t.Errorf("%s has %d of 300 requests", addresses[i], n)
		}
	}
}

// silentAddress returns an address that accepts connections and never answers, like a stopped process.
func silentAddress(t *testing.T) string {
	t.Helper()
	server := connectionstest.Serve(t, nil, connectionstest.Hangs)
	return server.Address
}

func TestAReplicaThatIsStoppedHoldsNoRequestForLong(t *testing.T) {
	t.Parallel()
	pki := connectionstest.NewPKI(t)
	config := pki.ServerConfig(t, coreServerName)
	stopped := connectionstest.Serve(t, config, connectionstest.None)
	other := connectionstest.Serve(t, config, connectionstest.None)
	b := newBackend(t, pki, stopped.Address)
	b.find(stopped.Address, ready)
	// One connection of each kind, each with a read that waits.
	if _, err := do(t, b, newRequest(t, http.MethodPut, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, b, by(user.Anonymous, newRequest(t, http.MethodPut, ""))); err != nil {
		t.Fatal(err)
	}
	run(t, b)
	stopped.SetFault(connectionstest.Stopped)
	var requests sync.WaitGroup
	begun := time.Now()
	for _, request := range []struct {
		user, method string
		answered     bool
	}{
		{"jane", http.MethodPost, false},
		{"jane", http.MethodGet, true},
		{user.Anonymous, http.MethodGet, true},
	} {
		requests.Go(func() {
			_, err := do(t, b, by(request.user, newRequest(t, request.method, "")))
			assert.Equal(t, request.answered, err == nil, "%s of %s: %v", request.method, request.user, err)
			t.Logf("%s of %s is over after %s", request.method, request.user, time.Since(begun))
		})
	}
	for b.endpoints[stopped.Address].load.InFlight(balance.Short) < 3 {
		time.Sleep(time.Millisecond) // until the reads wait
	}
	require.NoError(t, b.SetServers([]string{"https://" + stopped.Address, "https://" + other.Address}))
	requests.Wait()
	if ok, why := b.Ready(); !ok {
		t.Errorf("not ready: %s", why)
	}
	if e := b.pick(); e.address != other.Address {
		t.Errorf("requests go to the one that is stopped, %s", e.health.rank())
	}
}

func TestOnlyApplicationsAndPathsOfCoreRedirect(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	redirecting := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://evil.example.com/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	for path, want := range map[string][2]bool{
		"/apis/example.com/v1/namespaces/a/boats/b": {},
		"/apis/example.com/v1/boats?watch=1":        {},
		"/api/v1/namespaces/a/pods/b/proxy/login":   {true, false},
		"/logs/directory":                           {true, false},
	} {
		for i, name := range []string{Core, Extensions} {
			b := newBackend(t, pki, redirecting)
			b.name = name
			req := newRequest(t, http.MethodGet, "")
			req.URL.Path, req.URL.RawQuery, _ = strings.Cut(path, "?")
			resp, err := b.RoundTrip(classified(t, req, routing.Target{}))
			if err == nil {
				_ = resp.Body.Close() // it is empty
			}
			var redirect *RedirectError
			assert.Equal(t, want[i], err == nil, "%s redirects %s", name, path)
			assert.Equal(t, !want[i], errors.As(err, &redirect), "%s: error %v", path, err)
		}
	}
}
