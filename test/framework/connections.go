// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"net"
	"sync"
)

// connections are the connections of servers, including those that a handler has taken over.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// of returns a listener that records the connections of a server.
func (c *connections) of(listener net.Listener) net.Listener { return remembering{listener, c} }

// close closes all open connections.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for connection := range c.open {
		_ = connection.Close() // it is not used any more
	}
	c.open = nil
}

type remembering struct {
	net.Listener
	connections *connections
}

func (r remembering) Accept() (net.Conn, error) {
	accepted, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	connection := remembered{accepted.(*net.TCPConn), r.connections}
	r.connections.mu.Lock()
	defer r.connections.mu.Unlock()
	if r.connections.open == nil {
		r.connections.open = map[net.Conn]struct{}{}
	}
	r.connections.open[connection.TCPConn] = struct{}{}
	return connection, nil
}

type remembered struct {
	*net.TCPConn
	connections *connections
}

func (r remembered) Close() error {
	r.connections.mu.Lock()
	delete(r.connections.open, net.Conn(r.TCPConn))
	r.connections.mu.Unlock()
	return r.TCPConn.Close()
}
