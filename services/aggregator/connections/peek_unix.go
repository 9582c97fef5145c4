// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package connections

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// peeker returns a function that looks, without waiting, whether there is something to be read. The error is set when the connection
// has ended.
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
	var one [1]byte
	var n int
	var found error
	look := func(fd uintptr) bool {
		n, _, found = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		return true // and do not wait
	}
	return func() (bool, error) {
		switch err := raw.Read(look); {
		case err != nil:
			return false, err
		case errors.Is(found, syscall.EAGAIN), errors.Is(found, syscall.EINTR):
			return false, nil
		case found != nil:
			return false, found
		case n == 0:
			return false, io.EOF
		}
		return true, nil
	}
}
