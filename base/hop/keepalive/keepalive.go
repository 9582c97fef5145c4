// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keepalive makes a server notice within a minute that the other end of a connection is gone without a word: its host lost power,
// or the network forgot the connection. By the defaults of k8s.io/apiserver and Linux that takes half an hour if nothing is sent, and a
// quarter of an hour otherwise.
package keepalive

import (
	"net"
	"time"
)

// timeout is how long the other end may stay silent when it is asked whether it is there, or has to acknowledge something.
const timeout = time.Minute

// probes ask an idle other end whether it is there.
var probes = net.KeepAliveConfig{Enable: true, Idle: timeout / 2, Interval: timeout / 6, Count: 3}

// Set has a connection end while it is idle if its other end is gone. A connection that is not over TCP stays as it is.
func Set(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(probes) // the connection is broken then, and says so when it is used
	}
}

// LimitPauses has a connection also end if its other end receives nothing for a minute that was sent.
func LimitPauses(conn net.Conn) { setUserTimeout(conn, timeout) }

// AllowPauses lets the other end again receive nothing for as long as it likes, if it is there.
func AllowPauses(conn net.Conn) { setUserTimeout(conn, 0) }

// LimitUnacknowledged has a connection end if its other end does not acknowledge, for so long, what was sent. The kernel of the other end
// acknowledges, however busy the process is. It is for connections with few data: a process that reads nothing for so long, with its
// buffers full, ends the connection, too.
func LimitUnacknowledged(conn net.Conn, d time.Duration) { setUserTimeout(conn, d) }
