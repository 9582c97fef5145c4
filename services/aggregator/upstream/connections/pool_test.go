// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const serverName = "core.tripod-system.svc"

// counts has the number of open connections by protocol.
type counts struct{ http1, http2 atomic.Int64 }

func (c *counts) observe(protocol string, change int) {
	if protocol == "h2" {
		c.http2.Add(int64(change))
	} else {
		c.http1.Add(int64(change))
	}
}

func newTrust(t testing.TB, pki *connectionstest.PKI) *connections.Trust {
	t.Helper()
	trust, err := connections.NewTrust(serverName, connections.Files{CA: pki.CAFile, Cert: pki.CertFile, Key: pki.KeyFile})
	require.NoError(t, err)
	return trust
}

func newPool(t testing.TB, pki *connectionstest.PKI, address string) (*connections.Pool, *counts) {
	t.Helper()
	open := &counts{}
	pool := connections.New(address, newTrust(t, pki), connections.Options{Observe: open.observe})
	t.Cleanup(pool.Break)
	return pool, open
}

// serve starts a server with a handler.
func serve(t testing.TB, pki *connectionstest.PKI, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = pki.ServerConfig(t, serverName)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func newRequest(t testing.TB, method, body string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		// A request at a server has no GetBody.
		reader = io.MultiReader(strings.NewReader(body))
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "https://replica/path", reader)
	require.NoError(t, err)
	return req
}

// do sends a request and reads its answer.
func do(t testing.TB, pool *connections.Pool, req *http.Request, wire connections.Wire) (string, error) {
	t.Helper()
	resp, err := pool.RoundTrip(req, wire)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

// A server may reject a request with "Expect: 100-continue" without reading the body.
func TestABodyWaitsUntilItIsExpected(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	pool, _ := newPool(t, pki, serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		body, _ := io.ReadAll(req.Body)
		_, _ = w.Write(body)
	}))
	for _, wire := range []connections.Wire{connections.Multiplexed, connections.Exclusive} {
		req := newRequest(t, http.MethodPost, "content")
		req.Header.Set("Expect", "100-continue")
		body := &readSeen{Reader: req.Body}
		req.Body = io.NopCloser(body)
		_, err := do(t, pool, req, wire)
		require.NoError(t, err)
		assert.False(t, body.seen.Load(), "the body was read")

		req = newRequest(t, http.MethodPost, "content")
		req.Header.Set("Expect", "100-continue")
		req.Header.Set("Authorization", "somebody")
		answer, err := do(t, pool, req, wire)
		require.NoError(t, err)
		assert.Equal(t, "content", answer)
	}
}

// readSeen records that something read from it.
type readSeen struct {
	io.Reader
	seen atomic.Bool
}

func (r *readSeen) Read(p []byte) (int, error) {
	r.seen.Store(true)
	return r.Reader.Read(p)
}

func TestReasons(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	config := pki.ServerConfig(t, serverName)
	common := map[connectionstest.Fault]connections.Reason{
		connectionstest.BeforeHandshake: connections.Unreachable,
		connectionstest.BeforeHeaders:   connections.Broken,
		connectionstest.AfterHeaders:    connections.Broken,
		connectionstest.AmidBody:        connections.Broken,
		connectionstest.AfterBody:       connections.Broken,
	}
	special := map[connections.Wire]map[connectionstest.Fault]connections.Reason{
		connections.Exclusive: {connectionstest.AmidAnswerHeaders: connections.Broken},
		connections.Multiplexed: {
			connectionstest.GoAwayBelow:         connections.Refused,
			connectionstest.GoAwayBelowInError:  connections.Refused,
			connectionstest.GoAwayAboveAndClose: connections.Broken,
			connectionstest.ResetRefused:        connections.Refused,
			connectionstest.ResetProtocol:       connections.Reset,
			connectionstest.ResetInternal:       connections.Reset,
		},
	}
	for wire, name := range map[connections.Wire]string{connections.Exclusive: "HTTP/1.1", connections.Multiplexed: "HTTP/2"} {
		for _, faults := range []map[connectionstest.Fault]connections.Reason{common, special[wire]} {
			for fault, want := range faults {
				for _, first := range []bool{true, false} {
					t.Run(name+"/"+string(fault)+"/first="+map[bool]string{true: "yes", false: "no"}[first], func(t *testing.T) {
						server := connectionstest.Serve(t, config, connectionstest.None)
						pool, _ := newPool(t, pki, server.Address)
						if !first && fault != connectionstest.BeforeHandshake {
							if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), wire); err != nil {
								t.Fatal(err)
							}
						}
						server.SetFault(fault)
						before := server.Processed()
						_, err := do(t, pool, newRequest(t, http.MethodPost, "content"), wire)
						if got := connections.ReasonOf(err); got != want {
							t.Errorf("reason is %s, want %s: %v", got, want, err)
						}
						if want.Unprocessed() && server.Processed() != before {
							t.Error("the server may have processed it")
						}
						if n := server.Processed() - before; n > 1 {
							t.Errorf("it was sent %d times", n)
						}
					})
				}
			}
		}
	}
}

func TestNobodyThereIsUnreachable(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	for _, wire := range []connections.Wire{connections.Exclusive, connections.Multiplexed} {
		pool, open := newPool(t, pki, connectionstest.ClosedAddress(t))
		_, err := do(t, pool, newRequest(t, http.MethodPost, "content"), wire)
		if got := connections.ReasonOf(err); got != connections.Unreachable || connections.Silent(err) {
			t.Errorf("reason is %s, silent is %v: %v", got, connections.Silent(err), err)
		}
		if open.http1.Load()+open.http2.Load() != 0 {
			t.Error("a connection is left")
		}
	}
}

func TestAnotherServiceIsUnreachable(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	server := connectionstest.Serve(t, pki.ServerConfig(t, "extensions.tripod-system.svc"), connectionstest.None)
	pool, _ := newPool(t, pki, server.Address)
	_, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Multiplexed)
	if got := connections.ReasonOf(err); got != connections.Unreachable || server.Processed() > 0 {
		t.Errorf("reason is %s: %v", got, err)
	}
}

func TestAHandshakeThatHangsIsSilentAndShort(t *testing.T) {
	t.Parallel()
	pki := connectionstest.NewPKI(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it accepts nothing, like a stopped process
	require.NoError(t, err)
	defer listener.Close()
	pool, _ := newPool(t, pki, listener.Addr().String())
	_, err = do(t, pool, newRequest(t, http.MethodPost, "content"), connections.Multiplexed)
	if got := connections.ReasonOf(err); got != connections.Unreachable || !connections.Silent(err) {
		t.Errorf("reason is %s, silent is %v: %v", got, connections.Silent(err), err)
	}
}

// TestAHandshakeThatHangsIsWaitedForIfNoReplicaIsBetter has the replica go on after longer than a handshake may take otherwise.
func TestAHandshakeThatHangsIsWaitedForIfNoReplicaIsBetter(t *testing.T) {
	t.Parallel()
	pki := connectionstest.NewPKI(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var questions atomic.Int64
	accepts := make(chan struct{})
	pool := connections.New(listener.Addr().String(), newTrust(t, pki), connections.Options{Patient: func() bool {
		if questions.Add(1) == 2 {
			close(accepts)
		}
		return true
	}})
	server := &http.Server{TLSConfig: pki.ServerConfig(t, serverName), ReadHeaderTimeout: time.Minute}
	go func() {
		<-accepts
		_ = server.ServeTLS(listener, "", "")
	}()
	defer server.Close()
	_, err = do(t, pool, newRequest(t, http.MethodPost, "content"), connections.Multiplexed)
	assert.NoError(t, err)
}

// TestAReplicaIsHeardHoweverLateThisProcessReads asks the kernel.
func TestAReplicaIsHeardHoweverLateThisProcessReads(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	pki := connectionstest.NewPKI(t)
	pool, _ := newPool(t, pki, serve(t, pki, func(http.ResponseWriter, *http.Request) {}))
	before := pool.Received()
	_, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Multiplexed)
	require.NoError(t, err)
	assert.Greater(t, pool.Received(), before)
	time.Sleep(20 * time.Millisecond) // the kernel counts milliseconds
	since := time.Now()
	time.Sleep(20 * time.Millisecond)
	assert.False(t, pool.ReceivedSince(since), "nothing came since")
	_, err = do(t, pool, newRequest(t, http.MethodGet, ""), connections.Multiplexed)
	require.NoError(t, err)
	assert.True(t, pool.ReceivedSince(since))
	pool.BreakLost()
	_, err = do(t, pool, newRequest(t, http.MethodPost, ""), connections.Multiplexed)
	assert.NoError(t, err, "the connection was not lost")
}

func TestARequestThatItsClientGivesUpSaysNothingAboutTheReplica(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	arrived := make(chan struct{}, 2)
	address := serve(t, pki, func(_ http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-req.Context().Done()
	})
	for _, wire := range []connections.Wire{connections.Exclusive, connections.Multiplexed} {
		pool, _ := newPool(t, pki, address)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		_, err := do(t, pool, newRequest(t, http.MethodGet, "").WithContext(ctx), wire)
		if got := connections.ReasonOf(err); err == nil || got != connections.Unknown {
			t.Errorf("reason is %s: %v", got, err)
		}
	}
}

func TestReadsUseIdleConnectionsAndDoNotWaitForOthers(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	protocols := make(chan string, 100)
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		protocols <- req.Proto
		_, _ = io.WriteString(w, "answer")
	})
	pool, open := newPool(t, pki, address)
	if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Either); err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, "HTTP/2.0", <-protocols, "the first read went over")
	for range 1000 { // until the connection for the next read exists
		if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Either); err != nil {
			t.Fatal(err)
		}
		if <-protocols == "HTTP/1.1" {
			break
		}
	}
	made := open.http1.Load()
	for range 20 {
		if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Either); err != nil {
			t.Fatal(err)
		}
		if got := <-protocols; got != "HTTP/1.1" {
			t.Errorf("a read went over %s although a connection is idle", got)
		}
	}
	if n := open.http1.Load(); made == 0 || n > made+3 {
		t.Errorf("%d connections for one read at a time, %d before", n, made)
	}
}

func TestAReplicaThatSpeaksOnlyHTTP1(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		_, _ = io.WriteString(w, req.Proto+" "+string(body))
	}))
	server.TLS = pki.ServerConfig(t, serverName)
	server.TLS.NextProtos = []string{"http/1.1"}
	server.StartTLS()
	t.Cleanup(server.Close)
	pool, open := newPool(t, pki, server.Listener.Addr().String())
	for _, wire := range []connections.Wire{connections.Multiplexed, connections.Either, connections.Exclusive} {
		if got, err := do(t, pool, newRequest(t, http.MethodPost, "content"), wire); err != nil || got != "HTTP/1.1 content" {
			t.Errorf("answer %q, error %v", got, err)
		}
	}
	assert.NoError(t, pool.Answers(t.Context()))
	if n := open.http2.Load(); n != 0 {
		t.Errorf("%d connections of HTTP/2", n)
	}
}

func TestBlanksInAQueryArrive(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, req.Proto+" "+req.URL.Query().Get("labelSelector"))
	})
	pool, _ := newPool(t, pki, address)
	if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Exclusive); err != nil {
		t.Fatal(err) // now one connection is idle
	}
	for wire, want := range map[connections.Wire]string{
		connections.Either: "HTTP/2.0 a in (b)", connections.Multiplexed: "HTTP/2.0 a in (b)", connections.Exclusive: "HTTP/1.1 a in (b)",
	} {
		req := newRequest(t, http.MethodGet, "")
		req.URL.RawQuery = "labelSelector=a in (b)"
		if got, err := do(t, pool, req, wire); err != nil || got != want {
			t.Errorf("it arrives as %q (%v), want %q", got, err, want)
		}
	}
}

func TestMoreRequestsThanAConnectionTakes(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	release := make(chan struct{})
	var waiting sync.WaitGroup
	address := serve(t, pki, func(http.ResponseWriter, *http.Request) {
		waiting.Done()
		<-release
	})
	pool, open := newPool(t, pki, address)
	const requests = 600 // servers of httptest accept 250 at a time on a connection
	waiting.Add(requests)
	var done sync.WaitGroup
	for range requests {
		done.Go(func() {
			if _, err := do(t, pool, newRequest(t, http.MethodPost, ""), connections.Multiplexed); err != nil {
				t.Error(err)
			}
		})
	}
	waiting.Wait()
	if n := open.http2.Load(); n < 3 {
		t.Errorf("%d connections", n)
	}
	close(release)
	done.Wait()
}

func TestAStreamThatIsLargerThanItsWindowArrives(t *testing.T) {
	const parts, length = 640, 64 << 10 // ten windows
	pki := connectionstest.NewPKI(t)
	pool, _ := newPool(t, pki, serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
		part := strings.Repeat("x", length)
		for range parts {
			_, _ = io.WriteString(w, part)
		}
	}))
	got, err := do(t, pool, newRequest(t, http.MethodPost, ""), connections.Multiplexed)
	if err != nil || len(got) != parts*length {
		t.Errorf("got %d bytes, error %v", len(got), err)
	}
}

// countingConn counts writes.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestReadingEventsTakesFewWrites(t *testing.T) {
	const (
		events, length = 400, 1 << 10
		updateDelay    = 5 * time.Millisecond // the value of the package
	)
	pki := connectionstest.NewPKI(t)
	read := make(chan bool)
	address := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
		for range events {
			_, _ = io.WriteString(w, strings.Repeat("x", length))
			w.(http.Flusher).Flush()
			<-read
		}
	})
	var writes atomic.Int64
	pool := connections.New(address, newTrust(t, pki), connections.Options{
		Observe: (&counts{}).observe,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return countingConn{conn, &writes}, err
		},
	})
	t.Cleanup(pool.Break)
	resp, err := pool.RoundTrip(newRequest(t, http.MethodPost, ""), connections.Multiplexed)
	require.NoError(t, err)
	defer resp.Body.Close()
	began, before := time.Now(), writes.Load()
	for range events {
		if _, err := io.CopyN(io.Discard, resp.Body, length); err != nil {
			t.Fatal(err)
		}
		read <- true
	}
	// x/net/http2 alone would send one for every 4 KiB.
	if got, most := writes.Load()-before, int64(10+time.Since(began)/updateDelay); got > most {
		t.Errorf("there were %d writes for %d events, want %d at most", got, events, most)
	}
}

func TestTunnelsPassInBothDirections(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+req.Header.Get("Upgrade")+"\r\n\r\n")
		_, _ = io.Copy(conn, buffered) // until the client has sent everything
		_, _ = io.WriteString(conn, "end")
	})
	pool, open := newPool(t, pki, address)
	req := newRequest(t, http.MethodPost, "")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "SPDY/3.1")
	resp, err := pool.RoundTrip(req, connections.Exclusive)
	require.NoError(t, err)
	tunnel, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answer is %s with a %T", resp.Status, resp.Body)
	}
	sent := bytes.Repeat([]byte("data"), 1<<18)
	go func() {
		_, _ = tunnel.Write(sent)
		_ = tunnel.(interface{ CloseWrite() error }).CloseWrite()
	}()
	got, err := io.ReadAll(tunnel)
	if err != nil || !bytes.Equal(got, append(sent, "end"...)) {
		t.Errorf("got %d bytes (%v), want %d and the end", len(got), err, len(sent))
	}
	_ = tunnel.Close()
	if n := open.http1.Load(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestAnUpgradeThatNobodyAskedForIsRefused(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	address := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
	})
	pool, open := newPool(t, pki, address)
	_, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Exclusive)
	var failed *connections.Error
	if !errors.As(err, &failed) || failed.Reason != connections.Broken {
		t.Errorf("error is %v, want that the connection is broken", err)
	}
	if n := open.http1.Load(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestAPoolThatRetiresFinishesItsRequests(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	arrived, release := make(chan string, 3), make(chan struct{})
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		arrived <- req.Proto
		w.(http.Flusher).Flush()
		<-release
		_, _ = io.WriteString(w, "answer")
	})
	pool, open := newPool(t, pki, address)
	var requests sync.WaitGroup
	for _, wire := range []connections.Wire{connections.Exclusive, connections.Multiplexed} {
		requests.Go(func() {
			if got, err := do(t, pool, newRequest(t, http.MethodGet, ""), wire); err != nil || got != "answer" {
				t.Errorf("answer %q, error %v", got, err)
			}
		})
		<-arrived
	}
	retired := make(chan struct{})
	go func() {
		defer close(retired)
		pool.Retire(t.Context())
	}()
	for { // until the pool retires
		_, err := do(t, pool, newRequest(t, http.MethodPost, ""), connections.Exclusive)
		if err != nil {
			if got := connections.ReasonOf(err); got != connections.Unreachable {
				t.Errorf("reason is %s: %v", got, err)
			}
			break
		}
	}
	close(release)
	requests.Wait()
	<-retired
	if open.http1.Load() != 0 || open.http2.Load() != 0 {
		t.Error("connections are left")
	}
}

func TestBreakEndsAllRequests(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	arrived := make(chan struct{}, 2)
	address := serve(t, pki, func(_ http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-req.Context().Done()
	})
	pool, open := newPool(t, pki, address)
	reasons := make(chan connections.Reason, 2)
	for _, wire := range []connections.Wire{connections.Exclusive, connections.Multiplexed} {
		go func() {
			_, err := do(t, pool, newRequest(t, http.MethodPost, ""), wire)
			reasons <- connections.ReasonOf(err)
		}()
		<-arrived
	}
	pool.Break()
	for range 2 {
		assert.Equal(t, connections.Broken, <-reasons, "reason")
	}
	if open.http1.Load() != 0 || open.http2.Load() != 0 {
		t.Error("connections are left")
	}
}

func TestAnswersIsAskedBelowHTTP(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	release := make(chan struct{})
	defer close(release)
	address := serve(t, pki, func(http.ResponseWriter, *http.Request) { <-release })
	pool, _ := newPool(t, pki, address)
	go do(t, pool, newRequest(t, http.MethodGet, ""), connections.Multiplexed) //nolint:errcheck // it gets no answer
	assert.NoError(t, pool.Answers(t.Context()), "a replica whose handlers hang")

	frozen := connectionstest.Serve(t, pki.ServerConfig(t, serverName), connectionstest.Frozen)
	pool, _ = newPool(t, pki, frozen.Address)
	go do(t, pool, newRequest(t, http.MethodGet, ""), connections.Multiplexed) //nolint:errcheck // it gets no answer
	for frozen.Processed() == 0 {
		time.Sleep(time.Millisecond) // until the server freezes
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := pool.Answers(ctx); err == nil || !connections.Silent(err) {
		t.Errorf("a frozen replica: %v", err)
	}
}

func TestConnectionsWithOldCertificatesTakeNoNewRequests(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	seen := make(chan string, 10)
	address := serve(t, pki, func(_ http.ResponseWriter, req *http.Request) {
		seen <- req.TLS.PeerCertificates[0].SerialNumber.String()
	})
	trust := newTrust(t, pki)
	pool := connections.New(address, trust, connections.Options{})
	t.Cleanup(pool.Break)
	running := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(running)
		trust.Run(ctx)
	}()
	defer func() { stop(); <-running }()

	for _, wire := range []connections.Wire{connections.Exclusive, connections.Multiplexed} {
		if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), wire); err != nil {
			t.Fatal(err)
		}
	}
	first := <-seen
	require.Equal(t, first, <-seen, "two certificates")
	for _, file := range []string{pki.CertFile, pki.KeyFile} {
		require.NoError(t, os.Remove(file))
	}
	pki.Renew(t)
	for _, wire := range []connections.Wire{connections.Exclusive, connections.Multiplexed} {
		for { // until the pool notices the change
			if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), wire); err != nil {
				t.Fatal(err)
			}
			if <-seen != first {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	pool.Tidy()
}
