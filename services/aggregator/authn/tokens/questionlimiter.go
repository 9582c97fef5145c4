// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Bounds of what a client can make happen with unknown tokens. Each of them is a question to core, as long as the
// other questions may be about good tokens.
const (
	// maxQuestions is how many questions to core are under way: far more than core can work on at the same time, also where
	// it asks a webhook itself, and fewer than a gRPC connection may have.
	maxQuestions = 500
	// maxWaiting is how many others wait for their turn, in the order in which they came.
	maxWaiting = 5000
)

// ErrBusy is why a question was not asked. The client may try again later.
var ErrBusy = fmt.Errorf("%d questions about other tokens wait already", maxWaiting)

// questionLimiter bounds the questions to core.
type questionLimiter struct {
	asking  *semaphore.Weighted
	waiting atomic.Int64
}

func newQuestionLimiter() *questionLimiter {
	return &questionLimiter{asking: semaphore.NewWeighted(maxQuestions)}
}

// acquire returns when a question may be asked, and what to call when it is answered. It fails at once when too many wait.
func (t *questionLimiter) acquire(ctx context.Context) (done func(), err error) {
	done = func() { t.asking.Release(1) }
	if t.asking.TryAcquire(1) {
		return done, nil
	}
	defer t.waiting.Add(-1)
	if t.waiting.Add(1) > maxWaiting {
		return nil, ErrBusy
	}
	if err := t.asking.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("too many questions about other tokens came before: %w", err)
	}
	return done, nil
}
