// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout sets how long sent data may stay unacknowledged, or a full window closed. 0 is the default of the system.
func setUserTimeout(conn net.Conn, timeout time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds())) // as above
	})
}
