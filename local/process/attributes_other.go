// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "syscall"

// childAttributes keeps the Ctrl-C of a terminal away from a child, so that children stop in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
