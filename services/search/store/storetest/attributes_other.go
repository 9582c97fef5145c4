// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package storetest

import "syscall"

// attributes returns those of a database that runs as a user. It outlives a test that is killed.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}
