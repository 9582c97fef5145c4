// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"slices"
)

// UnknownReplicaError means that a request names a replica that does not exist.
type UnknownReplicaError struct{ Backend, Address string }

func (e *UnknownReplicaError) Error() string {
	return fmt.Sprintf("no replica of %s is at %q", e.Backend, e.Address)
}

// pinnedAgain returns the only replica that may answer. It returns nil if another attempt would be useless.
func (c *call) pinnedAgain() *endpoint {
	if c.throttled != nil || slices.Contains(c.unreachable, c.pinned) {
		return nil
	}
	return c.pinned
}
