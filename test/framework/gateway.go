// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Gateway passes connections on to an etcd, counts them, and can freeze.
type Gateway struct {
	// Open is how many connections there are.
	Open atomic.Int64
	// Frozen is held while the etcd seems to be stopped, as by SIGSTOP: it says nothing.
	Frozen sync.RWMutex

	listener net.Listener
	target   string
}

// NewGateway returns a gateway to the etcd at a URL. It passes on new connections until the test ends.
func NewGateway(t testing.TB, target string) *Gateway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() }) //nolint:errcheck // the test is over
	g := &Gateway{listener: listener, target: strings.TrimPrefix(target, "http://")}
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

// URL is that of the etcd behind the gateway.
func (g *Gateway) URL() string { return "http://" + g.listener.Addr().String() }

func (g *Gateway) pass(client net.Conn) {
	defer client.Close() //nolint:errcheck // either end may go away
	server, err := net.Dial("tcp", g.target)
	if err != nil {
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

// thawed reads what a server says while its gateway is not frozen.
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
