// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package apitest

import "syscall"

// attributes leave a process the Ctrl-C of a terminal. Nothing ends it if the test binary is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
