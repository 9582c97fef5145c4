// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"sync"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// waiting has the requests that end if the replica freezes: reads until their answer starts, and writes until they are sent. Another
// replica can get them, or the client is asked to repeat them. A write that was sent cannot be repeated, so it waits for the replica to
// recover. It ends with its connection, like watches and tunnels.
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

// end says that the request does not end any more if the replica freezes.
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
