// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import "syscall"

// attributes let the kernel kill a process when the thread that started it ends, and keep the Ctrl-C of a terminal from it: the test binary
// ends it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
