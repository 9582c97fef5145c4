// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"slices"
)

type pinKey struct{}

// WithReplica makes requests of the context go to the replica at an address, host:port, and to no other. An empty address
// leaves the choice.
func WithReplica(ctx context.Context, address string) context.Context {
	if address == "" {
		return ctx
	}
	return context.WithValue(ctx, pinKey{}, address)
}

// UnknownReplicaError says that a request is for a replica that there is not.
type UnknownReplicaError struct{ Backend, Address string }

func (e *UnknownReplicaError) Error() string {
	return fmt.Sprintf("no replica of %s is at %q", e.Backend, e.Address)
}

// pinned returns the replica that the request is for, or nil if any will do.
func (b *Backend) pinned(ctx context.Context) (*endpoint, error) {
	address, ok := ctx.Value(pinKey{}).(string)
	if !ok {
		return nil, nil
	}
	if e := b.endpointAt(address); e != nil {
		return e, nil
	}
	return nil, &UnknownReplicaError{b.name, address}
}

// pinnedAgain returns the replica that the request is for, while it makes sense to try it.
func (c *call) pinnedAgain() *endpoint {
	if c.throttled != nil || slices.Contains(c.unreachable, c.pinned) {
		return nil
	}
	return c.pinned
}
