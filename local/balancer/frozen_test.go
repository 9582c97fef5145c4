// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAFrozenServerGetsNoConnections prints the figure of the package comment: how many connections a frozen one of two servers keeps.
func TestAFrozenServerGetsNoConnections(t *testing.T) {
	const connections = 200
	shared := shareAPort(t, serveName, freeze)
	fromKernel := unanswered(t, connections, shared, time.Second)

	b := start(t)
	b.SetServers([]string{startNamed(t, "live").address}, []string{shareAPort(t, freeze)})
	fromBalancer := unanswered(t, connections, fmt.Sprintf("127.0.0.1:%d", b.Port()), time.Minute)

	t.Logf("of %d connections, the frozen one of two servers keeps %d on a shared port, and %d behind the balancer",
		connections, fromKernel, fromBalancer)
	require.NotZero(t, fromKernel, "the kernel knows which listener is frozen, so the balancer is not needed")
	require.Zero(t, fromBalancer)
}

func serveName(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(connection, "live")
		connection.Close()
	}
}

// freeze accepts no connection. The kernel completes the handshake all the same.
func freeze(net.Listener) {}

// shareAPort has servers listen on one port, and returns its address.
func shareAPort(t *testing.T, serve ...func(net.Listener)) string {
	t.Helper()
	address := "127.0.0.1:0"
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		failed := conn.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		if failed != nil {
			return failed
		}
		return err
	}}
	for _, s := range serve {
		listener, err := config.Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { listener.Close() })
		address = listener.Addr().String()
		go s(listener)
	}
	return address
}

// unanswered opens connections all at once, and counts those that no server answers. It is done when all are answered, or when none is for
// as long as waitTimeout.
func unanswered(t *testing.T, connections int, address string, waitTimeout time.Duration) (count int) {
	t.Helper()
	open := make([]net.Conn, connections)
	for i := range open {
		connection, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { connection.Close() })
		open[i] = connection
	}
	answered, answers := 0, make(chan bool, connections)
	for _, connection := range open {
		go func() {
			_, err := connection.Read(make([]byte, 1))
			answers <- err == nil
		}()
	}
	for {
		select {
		case one := <-answers:
			if one {
				answered++
			}
			if answered == connections {
				return 0
			}
		case <-time.After(waitTimeout):
			return connections - answered
		}
	}
}
