// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
)

// fakeConn is a TCP connection without a network. Its server notices when it is closed.
type fakeConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
	server func()
}

func (f *fakeConn) Close() error {
	f.once.Do(func() {
		close(f.closed)
		go f.server()
	})
	return nil
}

func (f *fakeConn) Read(p []byte) (int, error) { return len(p), nil }

// arrive makes a connection from an address. It returns nil if there is no room for it.
func arrive(c *Connections, address string) *connection {
	conn := &connection{of: c, address: address}
	conn.Conn = &fakeConn{closed: make(chan struct{}), server: func() { _ = conn.Close() }}
	if !c.add(conn) {
		return nil
	}
	return conn
}

func isClosed(conn *connection) bool {
	select {
	case <-conn.Conn.(*fakeConn).closed:
		return true
	default:
		return false
	}
}

func countClosed(all []*connection) (n int) {
	for _, conn := range all {
		if isClosed(conn) {
			n++
		}
	}
	return n
}

// flood makes so many connections from an address.
func flood(t *testing.T, c *Connections, address string, n int) (all []*connection) {
	t.Helper()
	for range n {
		conn := arrive(c, address)
		require.NotNil(t, conn, "there is no room for connection %d", len(all))
		all = append(all, conn)
	}
	return all
}

// room is for so many connections.
func room(n int64) *Connections { return New(n*connectionCost, requestmemory.New(0)) }

func named(name string) user.Info { return &user.DefaultInfo{Name: name} }

func TestWhoeverFloodsClosesItsOwnConnections(t *testing.T) {
	c := room(32)
	others := flood(t, c, "10.0.0.1", 8)
	for _, conn := range others[:4] {
		c.begin(conn, named("somebody"))
		c.end(conn)
	}
	flooding := flood(t, c, "10.0.0.2", 1000)
	assert.Zero(t, countClosed(others), "connections of others")
	assert.Equal(t, 1000-24, countClosed(flooding), "connections of the attacker")
	assert.Zero(t, countClosed(flooding[1000-24:]), "its last connections")
}

func TestOfUsersWithTheSameAddressTheLargestLosesConnections(t *testing.T) {
	c := room(32)
	var small, large []*connection
	for range 4 {
		conn := flood(t, c, "10.0.0.1", 1)[0]
		c.begin(conn, named("small"))
		c.end(conn)
		small = append(small, conn)
	}
	for range 100 {
		conn := flood(t, c, "10.0.0.1", 1)[0]
		c.begin(conn, named("large"))
		c.end(conn)
		large = append(large, conn)
	}
	assert.Zero(t, countClosed(small))
	assert.NotZero(t, countClosed(large))
}

func TestConnectionsInUseStay(t *testing.T) {
	c := room(16)
	all := flood(t, c, "10.0.0.1", 16)
	for i, name := range strings.Split("aaaaaaaabbbbccde", "") {
		require.True(t, c.begin(all[i], named(name)))
	}
	assert.Nil(t, arrive(c, "10.0.0.2"), "a connection for which there is no room")
	c.end(all[3])
	assert.NotNil(t, arrive(c, "10.0.0.2"), "a connection when one is not in use")
	for i, conn := range all {
		assert.Equal(t, i == 3, isClosed(conn), "connection %d", i)
	}
}

func TestAUserHasAsManyConnectionsInUseAsAreFree(t *testing.T) {
	c := room(16)
	all := flood(t, c, "10.0.0.1", 16)
	begun := func(name string, conns []*connection) (n int) {
		for _, conn := range conns {
			if c.begin(conn, named(name)) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 8, begun("a", all[:10]))
	assert.Equal(t, 4, begun("b", all[10:]), "another has half of what is left")
	assert.NotNil(t, arrive(c, "10.0.0.2"), "one that is not in use closes")
	assert.True(t, c.begin(all[0], named("a")), "another request on a connection in use")
	for range 2 {
		c.end(all[0])
	}
	assert.True(t, c.begin(all[1], named("a")))
	c.remove(all[1])
	for _, conn := range all[10:14] {
		c.end(conn)
	}
	assert.Equal(t, 2, begun("a", flood(t, c, "10.0.0.1", 3)), "what connections give back is free")
}

func TestConnectionsOfServicesStayAndTakeNoRoom(t *testing.T) {
	c := room(16)
	var own []*connection
	for range 16 {
		conn := flood(t, c, "10.0.0.1", 1)[0]
		c.begin(conn, named(user.APIServerUser))
		c.end(conn)
		own = append(own, conn)
	}
	flooding := flood(t, c, "10.0.0.1", 100)
	assert.Zero(t, countClosed(own))
	assert.Equal(t, 100-16, countClosed(flooding))
}

func TestWhatIsSentWithoutARequestCounts(t *testing.T) {
	c := room(16)
	others, slow := flood(t, c, "10.0.0.1", 4), flood(t, c, "10.0.0.2", 1)[0]
	sent := 0
	for !isClosed(slow) && sent < 2<<20 {
		n, err := slow.Read(make([]byte, 1<<10))
		require.NoError(t, err)
		sent += n
	}
	assert.Less(t, sent, 13*connectionCost, "bytes until it is closed")
	assert.Zero(t, countClosed(others))

	inUse := flood(t, c, "10.0.0.3", 1)[0]
	c.begin(inUse, named("a"))
	for range 2 << 10 {
		_, err := inUse.Read(make([]byte, 1<<10))
		require.NoError(t, err)
	}
	c.end(inUse)
	assert.False(t, isClosed(inUse), "a connection was closed for the body of its request")
}

func TestAnsweredRequestsOfNobodyDoNotCount(t *testing.T) {
	c := room(16)
	server := httptest.NewUnstartedServer(c.Arrive(http.NotFoundHandler()))
	server.Listener = c.Listen(server.Listener)
	server.Start()
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	req.Header.Set("A", strings.Repeat("a", step))
	dialled := 0
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{ConnectStart: func(string, string) { dialled++ }})
	for range 64 { // more than the connection may take
		resp, err := server.Client().Do(req.WithContext(ctx))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.Equal(t, 1, dialled, "connections")
}

func TestNothingIsLeftOfConnectionsThatAreClosed(t *testing.T) {
	c := room(16)
	var working sync.WaitGroup
	for i := range 8 {
		working.Go(func() {
			for n := range 200 {
				conn := arrive(c, fmt.Sprint("10.0.0.", i%3))
				if conn == nil {
					continue
				}
				for u := range n % 3 {
					c.begin(conn, named([]string{"a", user.APIServerUser, "b"}[(n+u)%3]))
					_, _ = conn.Read(make([]byte, step))
					defer c.end(conn)
				}
				_, _ = conn.Read(make([]byte, step))
				_ = conn.Close()
			}
		})
	}
	working.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.taken > 0 && c.closing > 0 {
		c.closed.Wait()
	}
	assert.Zero(t, c.taken)
	assert.Zero(t, c.closing)
	assert.Empty(t, c.owners)
}

func TestARequestUsesItsConnection(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			c := room(16)
			arrived, proceed := make(chan *connection), make(chan struct{})
			server := httptest.NewUnstartedServer(c.Arrive(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				ctx := request.WithUser(req.Context(), named("somebody"))
				c.Use(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
					arrived <- from(req.Context())
					<-proceed
				}), nil).ServeHTTP(w, req.WithContext(ctx))
			})))
			server.Listener = c.Listen(server.Listener)
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			done := make(chan error)
			go func() {
				resp, err := server.Client().Get(server.URL + "/api")
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
				}
				done <- err
			}()
			conn := <-arrived
			require.NotNil(t, conn, "the request has no connection")
			c.mu.Lock()
			assert.Equal(t, 1, conn.inUse)
			assert.Equal(t, owner{user: "somebody"}, conn.holder.owner)
			assert.Nil(t, conn.unused, "it may be closed")
			c.mu.Unlock()
			close(proceed)
			require.NoError(t, <-done)
		})
	}
}

func TestRequestsThatNobodyIsKnownToSendAreBounded(t *testing.T) {
	requests := requestmemory.New(1 << 20) // 8 of one user at a time
	c := New(0, requests)
	waiting, proceed := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(c.Arrive(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		waiting <- struct{}{}
		<-proceed
	})))
	server.Listener = c.Listen(server.Listener)
	server.Start()
	defer server.Close()
	get := func() (int, error) {
		resp, err := server.Client().Get(server.URL)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(proceed)
	for range 8 {
		asking.Go(func() { _, _ = get() })
		<-waiting
	}
	code, err := get()
	require.NoError(t, err)
	assert.Equal(t, http.StatusTooManyRequests, code)
}
