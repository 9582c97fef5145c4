// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// ChildAttributes returns attributes with which a child is killed when the thread ends that started it, and does not get the Ctrl-C of a
// terminal, so that children stop in order.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
