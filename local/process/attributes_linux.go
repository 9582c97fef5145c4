// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// ChildAttributes returns the attributes of a child. The kernel kills the child when the thread that started it ends. The child does not
// get the Ctrl-C of a terminal, so that children stop in order.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
