// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"net"
	"runtime"

	"github.com/tripod-k8s/tripod/base/hop/keepalive"
)

// small is the size below which a write waits for others to join it. net/http and x/net/http2 collect 4 KiB.
const small = 4 << 10

// Listener makes a connection let other goroutines run before a small write. An event wakes hundreds of watches that share an HTTP/2
// connection. While the server sends the first event, the other watches write theirs, and all of these leave together.
func Listener(listener net.Listener) net.Listener { return yieldingListener{listener} }

type yieldingListener struct{ net.Listener }

func (l yieldingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	keepalive.Set(conn) // k8s.io/apiserver sets its own if it finds a TCP connection, and finds none behind this listener
	return yieldingConn{conn}, nil
}

type yieldingConn struct{ net.Conn }

func (c yieldingConn) Write(p []byte) (int, error) {
	if len(p) < small {
		runtime.Gosched()
	}
	return c.Conn.Write(p)
}
