// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"net"
	"runtime"
	"time"
)

// small is what a write is shorter than that others may join: net/http and x/net/http2 collect 4 KiB.
const small = 4 << 10

// keepAlive is that of k8s.io/apiserver/pkg/server (tcpKeepAliveListener), which finds no TCP connection to set it for behind this listener.
const keepAlive = 3 * time.Minute

// Listener has the connections that it accepts let others go first when they write little. An event wakes up hundreds of watches that share an
// HTTP/2 connection; while its server sends the first one, what the others have written by then leaves together.
func Listener(listener net.Listener) net.Listener { return yieldingListener{listener} }

type yieldingListener struct{ net.Listener }

func (l yieldingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAlivePeriod(keepAlive) // it is broken then, and says so when it is used
	}
	return yieldingConn{conn}, nil
}

type yieldingConn struct{ net.Conn }

func (c yieldingConn) Write(p []byte) (int, error) {
	if len(p) < small {
		runtime.Gosched()
	}
	return c.Conn.Write(p)
}
