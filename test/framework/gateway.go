// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Gateway passes connections on to a server, counts them, and can freeze or be cut.
type Gateway struct {
	// Open is how many connections there are.
	Open atomic.Int64
	// Frozen is held while the server seems to be stopped, as by SIGSTOP: it sends nothing.
	Frozen sync.RWMutex

	listener        net.Listener
	network, target string

	mu          sync.Mutex
	cut         bool
	connections map[net.Conn]bool
}

// NewGateway returns a gateway to the server at a URL: of http, https, or unix:PATH. It passes on new connections until the test ends.
func NewGateway(t testing.TB, target string) *Gateway {
	t.Helper()
	g := newGateway(t, target)
	t.Cleanup(func() { g.listener.Close() }) //nolint:errcheck // the test is over
	return g
}

// NewGateway is NewGateway for processes that are started later: they stop before it does. Without etcd, a core takes a minute to stop.
func (e *Environment) NewGateway(t testing.TB, target string) *Gateway {
	t.Helper()
	g := newGateway(t, target)
	e.own(g.listener.Close, "gateway")
	return g
}

func newGateway(t testing.TB, target string) *Gateway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	to, err := url.Parse(target)
	require.NoError(t, err)
	g := &Gateway{listener: listener, network: "tcp", target: to.Host, connections: map[net.Conn]bool{}}
	if to.Scheme == "unix" {
		g.network, g.target = to.Scheme, cmp.Or(to.Opaque, to.Path)
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(client)
		}
	}()
	return g
}

// Address is where the gateway listens, HOST:PORT.
func (g *Gateway) Address() string { return g.listener.Addr().String() }

// URL is that of the etcd behind the gateway.
func (g *Gateway) URL() string { return "http://" + g.Address() }

// Cut ends all connections, and refuses others until Mend. What was under way is lost.
func (g *Gateway) Cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = true
	for connection := range g.connections {
		connection.Close() //nolint:errcheck // either end may go away
	}
}

// Mend takes connections again.
func (g *Gateway) Mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = false
}

// add notes a connection for Cut, unless the gateway is cut.
func (g *Gateway) add(connections ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, connection := range connections {
		g.connections[connection] = true
	}
	return !g.cut
}

func (g *Gateway) remove(connections ...net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, connection := range connections {
		delete(g.connections, connection)
	}
}

func (g *Gateway) pass(client net.Conn) {
	defer client.Close() //nolint:errcheck // either end may go away
	server, err := net.Dial(g.network, g.target)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // either end may go away
	defer g.remove(client, server)
	if !g.add(client, server) {
		return
	}
	g.Open.Add(1)
	defer g.Open.Add(-1)
	go func() {
		io.Copy(server, client) //nolint:errcheck // either end may go away
		server.Close()          //nolint:errcheck // which ends the other direction
	}()
	io.Copy(client, thawed{server, g}) //nolint:errcheck // either end may go away
}

// thawed reads what a server sends while its gateway is not frozen.
type thawed struct {
	io.Reader
	gateway *Gateway
}

func (t thawed) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.gateway.Frozen.RLock()
	defer t.gateway.Frozen.RUnlock()
	return n, err
}
