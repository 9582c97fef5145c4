// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storages

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// Gated is a storage whose objects can be moved from another API server and to one. It has a gate, which is open unless a move has closed
// it. While the gate is closed, writes of clients get [ErrorClosed], and only writes [ByMove] with the name of that move are done. Reads and
// watches go on.
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
}

// ErrGate says that a gate is not as its caller expects.
var ErrGate = errors.New("another move has closed the gate, or it was opened")

type moveKey struct{}

// ByMove returns a context whose writes are those of a move.
func ByMove(ctx context.Context, move string) context.Context {
	return context.WithValue(ctx, moveKey{}, move)
}

// MoveOf returns the move to which the writes of a context belong, or "" for those of clients.
func MoveOf(ctx context.Context) string {
	move, _ := ctx.Value(moveKey{}).(string)
	return move
}

// retryAfterSeconds is when a client should repeat a write that meets a closed gate.
const retryAfterSeconds = 1

// Admit returns nil if a gate admits the writes of a context. gate is what Gate returns.
func Admit(ctx context.Context, r schema.GroupResource, gate string) error {
	if MoveOf(ctx) == gate {
		return nil
	}
	return ErrorClosed(ctx, r)
}

// ErrorClosed returns the error of a write that a gate does not admit: 503 with Retry-After for a client, and [ErrGate] for a move.
func ErrorClosed(ctx context.Context, r schema.GroupResource) error {
	if MoveOf(ctx) != "" {
		return ErrGate
	}
	err := apierrors.NewServiceUnavailable(r.String() + " cannot be written: its objects move to or from another API server")
	err.ErrStatus.Details = &metav1.StatusDetails{Group: r.Group, Kind: r.Resource, RetryAfterSeconds: retryAfterSeconds}
	return err
}
