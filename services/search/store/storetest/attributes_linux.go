// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import "syscall"

// attributes returns those of a database that runs as a user, and ends with the test.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
}
