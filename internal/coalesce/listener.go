// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"net"
	"runtime"
)

// Listener has the connections that it accepts let others go first when they write. An event wakes up hundreds of watches that share an HTTP/2
// connection; while its server sends the first one, what the others have written by then leaves together.
func Listener(listener net.Listener) net.Listener { return yieldingListener{listener} }

type yieldingListener struct{ net.Listener }

func (l yieldingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return yieldingConn{conn}, nil
}

type yieldingConn struct{ net.Conn }

func (c yieldingConn) Write(p []byte) (int, error) {
	runtime.Gosched()
	return c.Conn.Write(p)
}
