// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// askKernel returns the state of a connection. It returns false if that is not known.
func askKernel(conn net.Conn) (state kernelState, ok bool) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return kernelState{}, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return kernelState{}, false
	}
	var info *unix.TCPInfo
	if failed := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); failed != nil || err != nil {
		return kernelState{}, false
	}
	return kernelState{
		silence: time.Duration(info.Last_data_recv) * time.Millisecond,
		lost:    int(info.Retransmits)+int(info.Probes) >= lostAttempts && time.Duration(info.Last_ack_recv)*time.Millisecond >= lostAfter,
	}, true
}
