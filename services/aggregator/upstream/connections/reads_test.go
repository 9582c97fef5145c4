// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// warm reads until one HTTP/1.1 connection is idle.
func warm(t testing.TB, pool *connections.Pool, open *counts) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		before := open.http2.Load()
		if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Either); err != nil {
			t.Fatal(err)
		}
		resp, err := pool.RoundTrip(newRequest(t, http.MethodGet, ""), connections.Either)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.ProtoMajor == 1 && before == open.http2.Load() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("reads do not go over HTTP/1.1")
		}
	}
}

func TestReasonsOfReads(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	config := pki.ServerConfig(t, serverName)
	for _, fault := range []connectionstest.Fault{
		connectionstest.BeforeHeaders, connectionstest.AfterHeaders, connectionstest.AfterBody, connectionstest.AmidAnswerHeaders,
	} {
		t.Run(string(fault), func(t *testing.T) {
			server := connectionstest.Serve(t, config, connectionstest.None)
			pool, open := newPool(t, pki, server.Address)
			warm(t, pool, open)
			server.SetFault(fault)
			before := server.Processed()
			_, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Either)
			if got := connections.ReasonOf(err); err == nil || got != connections.Broken {
				t.Errorf("reason is %s: %v", got, err)
			}
			if n := server.Processed() - before; n > 1 {
				t.Errorf("it was sent %d times", n)
			}
		})
	}
	t.Run("amid the answer", func(t *testing.T) {
		server := connectionstest.Serve(t, config, connectionstest.None)
		pool, open := newPool(t, pki, server.Address)
		warm(t, pool, open)
		server.SetFault(connectionstest.AmidAnswer)
		if answer, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Either); err == nil {
			t.Errorf("an answer that was cut off is complete: %q", answer)
		}
	})
}

func TestHeadersThatDoNotEndAreRefused(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	pool, open := newPool(t, pki, serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Several") != "" {
			w.Header().Set("Large", strings.Repeat("x", 11<<20))
		}
	}))
	warm(t, pool, open)
	req := newRequest(t, http.MethodGet, "")
	req.Header.Set("X-Several", "bytes")
	if _, err := do(t, pool, req, connections.Either); connections.ReasonOf(err) != connections.Broken || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("the error is %v", err)
	}
}

func TestReadsDoNotUseConnectionsThatWereClosed(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	server := connectionstest.Serve(t, pki.ServerConfig(t, serverName), connectionstest.None)
	pool, open := newPool(t, pki, server.Address)
	for range 5 {
		warm(t, pool, open)
		// Wait until the server has closed all connections, even those just being made, and the pool knows.
		for server.Connections() > 0 || open.http1.Load()+open.http2.Load() > 0 {
			server.CloseConnections()
			time.Sleep(time.Millisecond)
		}
		if _, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Either); err != nil {
			t.Fatalf("a read was sent over a closed connection: %v", err)
		}
		pool.Tidy()
	}
}

// TestOneReadAfterAnother checks that nothing of one read affects the next one on its connection.
func TestOneReadAfterAnother(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	long := strings.Repeat("0123456789", 10_000)
	blocked := make(chan struct{}, 1)
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/long":
			for part := range strings.SplitAfterSeq(long, "9") {
				_, _ = io.WriteString(w, part)
			}
		case "/hints":
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "after hints")
		case "/last":
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "last")
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		case "/blocks":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			blocked <- struct{}{}
			<-req.Context().Done()
			panic(http.ErrAbortHandler) // else the answer ends, and the end may still reach a client that is closing the connection
		default:
			_, _ = io.WriteString(w, req.Method+" "+req.URL.RequestURI()+" "+req.Host+" "+strings.Join(req.Header["X-Several"], "|")+req.UserAgent())
		}
	})
	pool, open := newPool(t, pki, address)
	read := func(t *testing.T, method, path string, want string) {
		t.Helper()
		warm(t, pool, open)
		req := newRequest(t, method, "")
		target, err := url.ParseRequestURI(path)
		require.NoError(t, err)
		target.Scheme, target.Host = req.URL.Scheme, req.URL.Host
		req.URL = target
		req.Host = "client.example:6443"
		req.Header["X-Several"] = []string{"a", "b"}
		req.Header["User-Agent"] = []string{""}
		if got, err := do(t, pool, req, connections.Either); err != nil || got != want {
			t.Errorf("%s %s: %.80q, %v; want %.80q", method, path, got, err, want)
		}
	}
	plain := func(t *testing.T) {
		t.Helper()
		read(t, http.MethodGet, "/a%20b?x=1&y=%2F", "GET /a%20b?x=1&y=%2F client.example:6443 a|b")
	}
	for path, want := range map[string]string{"/long": long, "/hints": "after hints", "/last": "last", "/nothing": ""} {
		t.Run(path, func(t *testing.T) {
			read(t, http.MethodGet, path, want)
			plain(t)
			read(t, http.MethodHead, path, "")
			plain(t)
		})
	}
	t.Run("closed early", func(t *testing.T) {
		warm(t, pool, open)
		req := newRequest(t, http.MethodGet, "")
		req.URL.Path = "/long"
		resp, err := pool.RoundTrip(req, connections.Either)
		require.NoError(t, err)
		_, _ = io.CopyN(io.Discard, resp.Body, 10)
		_ = resp.Body.Close()
		plain(t)
	})
	t.Run("given up", func(t *testing.T) {
		warm(t, pool, open)
		ctx, cancel := context.WithCancel(t.Context())
		req := newRequest(t, http.MethodGet, "").WithContext(ctx)
		req.URL.Path = "/blocks"
		resp, err := pool.RoundTrip(req, connections.Either)
		require.NoError(t, err)
		<-blocked
		cancel()
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the answer goes on")
		}
		_ = resp.Body.Close()
		plain(t)
	})
	t.Run("invalid", func(t *testing.T) {
		for name, change := range map[string]func(*http.Request){
			"header":  func(req *http.Request) { req.Header["X-A"] = []string{"a\r\nX-B: c"} },
			"name":    func(req *http.Request) { req.Header["X-A: b\r\nX-C"] = []string{"d"} },
			"query":   func(req *http.Request) { req.URL.RawQuery = "a\r\nX-B: c" },
			"host":    func(req *http.Request) { req.Host = "a\r\nX-B: c" },
			"control": func(req *http.Request) { req.URL.RawQuery = "a\x01" },
		} {
			warm(t, pool, open)
			req := newRequest(t, http.MethodGet, "")
			change(req)
			if got, err := do(t, pool, req, connections.Either); err == nil {
				t.Errorf("%s: it was sent, and answered %q", name, got)
			}
		}
		plain(t)
	})
}

// BenchmarkRead measures a short read over an idle connection.
func BenchmarkRead(b *testing.B) {
	pki := connectionstest.NewPKI(b)
	content := strings.Repeat("x", 1200)
	address := serve(b, pki, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) })
	pool, open := newPool(b, pki, address)
	warm(b, pool, open)
	for name, wire := range map[string]connections.Wire{"http1": connections.Exclusive, "http2": connections.Multiplexed} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := do(b, pool, newRequest(b, http.MethodGet, ""), wire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
