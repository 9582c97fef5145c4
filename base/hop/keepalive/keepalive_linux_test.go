// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// option reads an option of a connection from the kernel.
func option(t *testing.T, conn net.Conn, name int) int {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var value int
	var failed error
	if err := raw.Control(func(fd uintptr) { value, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return value
}

func TestAConnectionEndsWithinAMinuteOfItsOtherEnd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	Set(conn)
	LimitPauses(conn)
	idle, interval, count := option(t, conn, unix.TCP_KEEPIDLE), option(t, conn, unix.TCP_KEEPINTVL), option(t, conn, unix.TCP_KEEPCNT)
	if seconds := idle + interval*count; seconds > 60 {
		t.Errorf("an idle connection ends after %d s", seconds)
	}
	if ms := option(t, conn, unix.TCP_USER_TIMEOUT); ms != 60_000 {
		t.Errorf("a connection that takes nothing ends after %d ms", ms)
	}
	AllowPauses(conn)
	if ms := option(t, conn, unix.TCP_USER_TIMEOUT); ms != 0 {
		t.Errorf("a connection that may pause ends after %d ms", ms)
	}
}
