// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/internal/hop/retry"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// silence is how long nothing may be heard of a replica: it sends a sign of life every second.
const silence = 3 * time.Second

// pauses are those between tries to read a feed. A replica that was lost takes seconds to come back.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.3, Steps: 6, Cap: time.Second}
}

// follow reads the feed of the replica at an address until the context ends. It is served elsewhere, at another port.
func (f *Follower) follow(ctx context.Context, address, at string, r *replica) {
	backoff := pauses()
	for ctx.Err() == nil {
		heard, err := f.read(ctx, address, at, r)
		if ctx.Err() != nil {
			return
		}
		f.lose(address, r, err)
		if heard {
			backoff = pauses()
		}
		if !retry.For(ctx, backoff.Step()) {
			return
		}
	}
}

var errSilent = errors.New("there is no sign of life")

// read reads one stream to its end, and reports whether there was something to read.
func (f *Follower) read(ctx context.Context, address, at string, r *replica) (heard bool, err error) {
	connection, err := f.config.Dial(at)
	if err != nil {
		return false, err
	}
	defer connection.Close() //nolint:errcheck // nothing was written
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()

	stream, err := backendv1.NewBackendClient(connection).Watch(ctx, &backendv1.WatchRequest{})
	for err == nil {
		var message *backendv1.WatchResponse
		if message, err = stream.Recv(); err == nil {
			watchdog.Reset(silence)
			heard = true
			f.hear(address, r, message)
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = cause
	}
	return heard, err
}
