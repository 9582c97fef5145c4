// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attention has deadlines for what other processes do. They count only the time in which this process could have noticed an answer.
//
// A process that was stopped, or had no processor for a while, finds all of its deadlines passed when it goes on, though the answers have
// long arrived and wait to be read. Such an observer must doubt itself before it doubts others. So a deadline here is cut into slices, each
// slice counts no longer than it should have taken, and a slice ends only after the goroutines that were ready to run before it have run.
package attention

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// A slice is this part of a deadline, within limits.
const (
	parts              = 8
	minSlice, maxSlice = 20 * time.Millisecond, 500 * time.Millisecond
)

// yield lets other goroutines run. Tests replace it.
var yield = runtime.Gosched

// Timer calls a function once, like the timer of time.AfterFunc.
type Timer struct {
	call  func() time.Duration
	timer *time.Timer

	mu sync.Mutex
	// left is the time until the call.
	left time.Duration
	// slice is how long a slice is, and due when the current one should end.
	slice time.Duration
	due   time.Time
	// run counts the slices, so that one that was replaced does nothing.
	run int
}

// AfterFunc returns a timer that calls a function in its own goroutine after this process had so much time. If the function returns more
// than 0, the timer calls it again after that time.
func AfterFunc(d time.Duration, call func() (again time.Duration)) *Timer {
	t := &Timer{call: call}
	t.Reset(d)
	return t
}

// Reset makes the timer start anew with another time.
func (t *Timer) Reset(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(d)
}

func (t *Timer) set(d time.Duration) {
	t.left, t.slice = d, max(minSlice, min(d/parts, maxSlice))
	t.begin()
}

// Stop keeps the timer from calling the function, if the call has not begun.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run++
	t.timer.Stop()
}

// begin starts a slice. The caller holds the lock.
func (t *Timer) begin() {
	slice := min(t.left, t.slice)
	t.due = time.Now().Add(slice)
	t.run++
	run := t.run
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(slice, func() { t.end(run) })
}

// end ends a slice. A timer is served before goroutines that wait for a processor, so this one lines up behind them: one of them may be
// about to read the answer.
func (t *Timer) end(run int) {
	yield()
	t.mu.Lock()
	if t.run != run {
		t.mu.Unlock()
		return
	}
	t.left -= t.slice
	if time.Since(t.due) > t.slice {
		t.left = max(t.left, t.slice) // there is at least one more slice, which is not late
	}
	if t.left > 0 {
		t.begin()
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	again := t.call()
	t.mu.Lock()
	defer t.mu.Unlock()
	if again > 0 && t.run == run { // it was neither reset nor stopped meanwhile
		t.set(again)
	}
}

// WithTimeout is context.WithTimeout, but with such a deadline. Its end is the cause of the context, context.DeadlineExceeded.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := AfterFunc(d, func() time.Duration {
		cancel(context.DeadlineExceeded)
		return 0
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
