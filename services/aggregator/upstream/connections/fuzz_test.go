// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// FuzzAnswer has a replica answer with any bytes over HTTP/1.1, once it has the whole request. The answer must be the one that net/http reads. If
// there is none, the request must count as possibly processed.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", "HTTP/1.1 200 OK\r\n\r\nuntil the end", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Away\r\nRetry-After: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "garbage\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 101 Switching\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\n",
	} {
		f.Add([]byte(answer))
	}
	pki := connectionstest.NewPKI(f)
	config := pki.ServerConfig(f, serverName)
	config.NextProtos = []string{"http/1.1"}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = listener.Close() })
	var mu sync.Mutex
	var answer []byte
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				_, _ = conn.Write(answer)
			}()
		}
	}()
	f.Fuzz(func(t *testing.T, data []byte) {
		mu.Lock()
		answer = data
		mu.Unlock()
		pool, _ := newPool(t, pki, listener.Addr().String())
		defer pool.Break()
		resp, err := pool.RoundTrip(newRequest(t, http.MethodGet, ""), connections.Exclusive)
		if err != nil {
			require.False(t, connections.ReasonOf(err).Unprocessed(), "the replica had the request: %v", err)
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return
		}
		want := firstAnswer(t, data, resp.Request)
		require.Equal(t, want.StatusCode, resp.StatusCode)
		require.Equal(t, want.Header, resp.Header)
		wantBody, wantErr := io.ReadAll(want.Body)
		body, err := io.ReadAll(resp.Body)
		require.Equal(t, wantErr == nil, err == nil, "%v, want %v", err, wantErr)
		require.Equal(t, wantBody, body)
	})
}

// firstAnswer returns the first answer with a status other than 1xx.
func firstAnswer(t *testing.T, data []byte, req *http.Request) *http.Response {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(data))
	for {
		resp, err := http.ReadResponse(reader, req)
		require.NoError(t, err)
		if resp.StatusCode >= 200 {
			return resp
		}
	}
}
