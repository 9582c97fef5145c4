// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storages

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// gateway passes connections on to a server, and counts them.
type gateway struct {
	listener net.Listener
	target   string
	open     atomic.Int64
}

func newGateway(t *testing.T, target string) *gateway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() }) //nolint:errcheck // the test is over
	g := &gateway{listener: listener, target: strings.TrimPrefix(target, "http://")}
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

func (g *gateway) url() string { return "http://" + g.listener.Addr().String() }

func (g *gateway) pass(client net.Conn) {
	defer client.Close() //nolint:errcheck // either end may go away
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	g.open.Add(1)
	defer g.open.Add(-1)
	go func() {
		io.Copy(server, client) //nolint:errcheck // either end may go away
		server.Close()          //nolint:errcheck // which ends the other direction
	}()
	io.Copy(client, server) //nolint:errcheck // either end may go away
}
