// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnswers(t *testing.T) {
	s := &Probes{}
	get := func(path string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	expect := func(when string, want map[string]int) {
		t.Helper()
		for path, code := range want {
			if got := get(path); got != code {
				t.Errorf("%s, %s answers %d, want %d", when, path, got, code)
			}
		}
	}
	expect("starting", map[string]int{"/livez": 200, "/readyz": 500, "/healthz": 500, "/": 404, "/api": 404, "/metrics": 404})
	s.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	expect("running", map[string]int{
		"/livez": 418, "/readyz": 418, "/readyz/etcd": 418, "/healthz": 418,
		"/": 404, "/api": 404, "/livezz": 404, "/metrics": 404, "//livez": 404, "/api/../livez": 404,
	})
}

func TestStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := taken.Addr().String()
	flag := newProbesFlag()
	flag.Address = address
	if _, err := startProbes(&flag, "etcd"); err == nil || !strings.Contains(err.Error(), "--probe-bind-address") {
		t.Errorf("error for a busy port is %v", err)
	}
	require.NoError(t, taken.Close())
	if _, err := startProbes(&flag, "etcd"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + address + "/livez")
	require.NoError(t, err)
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || string(body) != "ok" {
		t.Errorf("answer is %d %q", resp.StatusCode, body)
	}
}

// TestSilentClientsLoseTheirConnections connects clients that send nothing, half a request, and nothing more after an answer.
func TestSilentClientsLoseTheirConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := make(chan net.Conn)
		server := NewProbeServer(&Probes{})
		go func() { _ = server.Serve(pipes(clients)) }()
		for name, sent := range map[string]string{
			"nothing": "", "half a request": "GET /livez HTTP/1.1\r\nHost:", "an answered request": "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n",
			"half a body": "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
		} {
			client, served := net.Pipe()
			clients <- served
			go func() { _, _ = io.WriteString(client, sent) }()
			began := time.Now()
			if _, err := io.Copy(io.Discard, client); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if open := time.Since(began); open > time.Minute {
				t.Errorf("%s: the connection lasts %s", name, open)
			}
			_ = client.Close()
		}
		_ = server.Close()
	})
}

// pipes is a listener.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestNowhere(t *testing.T) {
	flag := newProbesFlag()
	s, err := startProbes(&flag, "etcd")
	if s != nil || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
	s.Serve(nil)
}
