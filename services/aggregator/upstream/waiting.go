// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"sync"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// waiting has the requests that wait for the start of their answer. If the replica freezes, these requests end. Watches and tunnels are not among
// them. They continue if the replica recovers, and else end with their connections.
type waiting struct {
	mu     sync.Mutex
	frozen bool
	ends   map[*exchange]context.CancelCauseFunc
}

// begin returns a context for a request. It ends with the exchange, or when the replica freezes.
func (w *waiting) begin(ctx context.Context, x *exchange) context.Context {
	ctx, x.release = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen {
		x.release(connections.ErrFrozen)
		return ctx
	}
	if w.ends == nil {
		w.ends = map[*exchange]context.CancelCauseFunc{}
	}
	w.ends[x] = x.release
	return ctx
}

// end says that the answer has begun, or will not come.
func (w *waiting) end(x *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ends, x)
}

// setFrozen records whether the replica is frozen.
func (w *waiting) setFrozen(frozen bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = frozen
	if frozen {
		for _, end := range w.ends {
			end(connections.ErrFrozen)
		}
		clear(w.ends)
	}
}
