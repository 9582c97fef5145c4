// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package connections

import "net"

// askKernel returns false: only Linux says so much.
func askKernel(net.Conn) (state kernelState, ok bool) { return kernelState{}, false }
