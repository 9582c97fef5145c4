// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// peeker returns a function that looks, without waiting, whether there is something to be read. The error is set when the connection
// has ended, even if there is something to be read before the end. It is for one goroutine at a time.
func peeker(conn net.Conn) func() (pending bool, err error) {
	nothing := func() (bool, error) { return false, nil }
	below, ok := conn.(syscall.Conn)
	if !ok {
		return nothing
	}
	raw, err := below.SyscallConn()
	if err != nil {
		return nothing
	}
	state := make([]unix.PollFd, 1)
	var failed error
	look := func(fd uintptr) {
		state[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}
		_, failed = unix.Poll(state, 0)
	}
	return func() (bool, error) {
		switch err := raw.Control(look); {
		case err != nil:
			return false, err
		case errors.Is(failed, unix.EINTR):
			return false, nil
		case failed != nil:
			return false, failed
		case state[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
			return false, io.EOF
		}
		return state[0].Revents&unix.POLLIN != 0, nil
	}
}
