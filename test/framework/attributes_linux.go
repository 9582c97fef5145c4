// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import "syscall"

// dieWithParent keeps a test that is killed from leaving processes behind, and the Ctrl-C of a terminal away from
// them, so that they are stopped in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
