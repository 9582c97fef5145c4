// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// childAttributes has a child killed when this process ends, and keeps the Ctrl-C of a terminal away from it, so that
// children stop in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
