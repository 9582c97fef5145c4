// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// opensWatches opens many watches of a member at once, which takes so many requests on a connection, or speaks HTTP/1.1 if that is zero. It
// returns how many are open, and how many search refuses.
func opensWatches(t *testing.T, watches, onConnection int) (m *Member, opened, refused int64, end func()) {
	t.Helper()
	var open, limits atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}))
	server.EnableHTTP2 = onConnection > 0
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: max(onConnection, 1)}
	m = newMember(t, served(t, server), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range watches {
		s := m.source()
		s.resource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: fmt.Sprint("things", i)}
		all.Go(func() {
			for begun := false; !begun && ctx.Err() == nil; { // a handshake may take too long on a busy machine
				err := s.watch(ctx, "1", false, func() { begun = true; open.Add(1) }, func(event) error { return nil })
				if !begun && isLimit(err) {
					if limits.Load() == 0 {
						t.Logf("the first that is refused: %s", err)
					}
					limits.Add(1)
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return open.Load()+limits.Load() == int64(watches) }, time.Minute, time.Millisecond)
	return m, open.Load(), limits.Load(), func() {
		cancel()
		all.Wait()
	}
}

// TestAMemberSaysNotHowManyConnectionsSearchHas has API servers take as many requests on one as they allow.
func TestAMemberSaysNotHowManyConnectionsSearchHas(t *testing.T) {
	const watches = 60
	for _, test := range []struct {
		onConnection int
		refuses      bool
		// most is how many connections there are at most.
		most int64
	}{
		{250, false, 2 * connectsAtOnce},
		{requestsOfConnection, false, watches + idleConnections},
		{1, true, watches + idleConnections},
		{0, false, watches},
	} {
		t.Run(fmt.Sprint(test.onConnection), func(t *testing.T) {
			m, opened, refused, end := opensWatches(t, watches, test.onConnection)
			of := m.limiter.connections
			t.Logf("%d watches, %d refused; %d connections, %d with watches", opened, refused, of.open.Load(), of.carriers.Load())
			assert.Equal(t, test.refuses, refused > 0)
			assert.LessOrEqual(t, of.open.Load(), test.most)
			if test.refuses {
				assert.LessOrEqual(t, opened, int64(spareConnections+watches/requestsOfConnection))
			}
			if test.onConnection > 0 {
				assert.LessOrEqual(t, of.carriers.Load(), int64(spareConnections+watches/requestsOfConnection))
			}
			end()
			assert.Zero(t, of.requests.Load())
			assert.Zero(t, of.carriers.Load())
			require.Eventually(t, func() bool {
				m.hangUp() // one may only come now
				return of.open.Load() == 0
			}, time.Minute, time.Millisecond)
		})
	}
}

// TestConnectionsWithoutRequestsHaveABound has more than there may be, and one that closes.
func TestConnectionsWithoutRequestsHaveABound(t *testing.T) {
	c := newConnections()
	for range idleConnections {
		require.NoError(t, c.awaitRoom(t.Context()))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.True(t, isLimit(c.awaitRoom(ended)))
	c.requests.Add(1)
	require.NoError(t, c.awaitRoom(ended), "a request has one")
	waits := make(chan error, 1)
	go func() { waits <- c.awaitRoom(t.Context()) }()
	client, server := net.Pipe()
	defer server.Close()
	w := newWire(client, c, newOverhead(1))
	require.NoError(t, w.Close())
	require.NoError(t, w.Close(), "it counts once")
	require.NoError(t, <-waits)
	assert.EqualValues(t, idleConnections+1, c.open.Load())
}

// TestTheKernelKeepsLittleOfAnAnswer holds for HTTP/1.1, where what search does not read waits there.
func TestTheKernelKeepsLittleOfAnAnswer(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"items":[]}`) //nolint:errcheck // the client is gone
	}))
	config := served(t, server)
	m := newMember(t, config, nil)
	transport, err := m.limiter.transport(config)
	require.NoError(t, err)
	var conn net.Conn
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { conn = got.Conn }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	resp, sent, err := m.limiter.connections.send(transport, m.limiter.connections.connecting, req)
	require.NoError(t, err)
	defer resp.Body.Close()
	defer sent.end()
	raw, err := conn.(*tls.Conn).NetConn().(*wire).Conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	size := 0
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) { size, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF) }))
	require.NoError(t, failed)
	assert.LessOrEqual(t, size, 2*receiveBuffer)
}

// TestRequestsThatWaitForConnectionsKeepNoOtherFromItsOwn has an API server take no further connections for requests that copy objects.
func TestRequestsThatWaitForConnectionsKeepNoOtherFromItsOwn(t *testing.T) {
	m := hostile(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`) //nolint:errcheck // the client is gone
	})
	for range connectsAtOnce {
		m.limiter.connections.inBulk <- struct{}{}
	}
	s := m.source()
	s.resource = kindOfRoleBindings.GroupVersionResource
	within, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, readAll(within, s, "list"))
	require.NoError(t, s.ask(within))
	ended, end := context.WithCancel(t.Context())
	end()
	require.Error(t, readAll(ended, m.source(), "list"), "it waits")
	assert.Zero(t, m.limiter.connections.requests.Load())
}
