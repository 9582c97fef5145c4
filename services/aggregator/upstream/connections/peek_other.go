// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package connections

import "net"

// peeker returns a function that knows nothing: reads that fail are sent again.
func peeker(net.Conn) func() (pending bool, err error) {
	return func() (bool, error) { return false, nil }
}
