// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storages

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/base/migration"
)

// Gated is a storage whose objects can be moved from another API server and to one. It has a gate, which is open unless a move has closed
// it. While the gate is closed, writes of clients get [ErrorClosed], and only writes [ByMove] with the name of that move are done. Reads
// and watches go on.
//
// The gate is kept where the objects are, and compared in the transaction of each write. So it holds for all replicas that share the
// objects, however old their state is, and outlasts them as the objects do.
type Gated interface {
	storage.Interface
	// Gate returns the name of the move that has closed the gate, or "" if the gate is open.
	Gate(ctx context.Context) (move string, err error)
	// SetGate closes the gate for a move, gives it to another move, or opens it, to being "" then. It returns [ErrGate], and changes
	// nothing, if the gate is not as from. When it has returned, no write that from would admit is done any more.
	SetGate(ctx context.Context, from, to string) error
	// Raise makes all later resourceVersions larger than one of another API server, for the move that has closed the gate, or returns
	// [ErrGate]. Watches and continued lists of that one and of older ones get 410 from then on. It returns the first resourceVersion after
	// that, or 0 if it has to be called again, because that takes long.
	Raise(ctx context.Context, move string, above int64) (floor int64, err error)
}

// ErrGate says that a gate is not as its caller expects.
var ErrGate = migration.ErrGate

// ByMove returns a context whose writes are those of a move.
func ByMove(ctx context.Context, move string) context.Context { return migration.ByMove(ctx, move) }

// MoveOf returns the move to which the writes of a context belong, or "" for those of clients. Admit a write if that is what Gate returns.
func MoveOf(ctx context.Context) string { return migration.MoveOf(ctx) }

// ErrorClosed returns the error of a write that a gate does not admit: 503 with Retry-After for a client, and [ErrGate] for a move.
func ErrorClosed(ctx context.Context, r schema.GroupResource) error {
	return migration.ErrorClosed(ctx, r)
}
