// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package framework

import "syscall"

// dieWithParent keeps the Ctrl-C of a terminal away from children, so that they are stopped in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
