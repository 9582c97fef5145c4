// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrGate says that the gate of a resource is not as its caller expects.
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

// ErrorClosed returns the error of a write that a gate does not admit: 503 with Retry-After for a client, and [ErrGate] for a move.
func ErrorClosed(ctx context.Context, r schema.GroupResource) error {
	if MoveOf(ctx) != "" {
		return ErrGate
	}
	err := apierrors.NewServiceUnavailable(r.String() + " cannot be written: its objects move to or from another API server")
	err.ErrStatus.Details = &metav1.StatusDetails{Group: r.Group, Kind: r.Resource, RetryAfterSeconds: retryAfterSeconds}
	return err
}
