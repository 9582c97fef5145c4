// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"io"
	"sync"
	"time"
)

// clock ends a request for which a member takes too long. It runs only while search waits for the member, not while the member waits for
// search.
type clock struct {
	mu   sync.Mutex
	left time.Duration
	// since is when the clock began to run, or zero.
	since time.Time
	timer *time.Timer
}

// newClock returns a clock that calls a function in a goroutine when the member has taken all of its time.
func newClock(most time.Duration, end func()) *clock {
	c := &clock{left: most, timer: time.AfterFunc(most, end)}
	c.timer.Stop()
	return c
}

// set sets how much time the member has from now on. The clock does not run.
func (c *clock) set(left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = left
}

// hurry leaves the member so much time at most from now on.
func (c *clock) hurry(most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := !c.since.IsZero()
	if runs {
		c.stop()
	}
	if c.left = min(c.left, most); runs {
		c.start()
	}
}

func (c *clock) start() {
	c.since = time.Now()
	c.timer.Reset(c.left)
}

func (c *clock) stop() {
	c.timer.Stop()
	c.left -= time.Since(c.since)
	c.since = time.Time{}
}

// wait calls a function that waits for the member.
func (c *clock) wait(do func()) {
	c.mu.Lock()
	c.start()
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
}

// clockReader is a reader that waits for the member.
type clockReader struct {
	*clock
	from io.Reader
}

// Read implements io.Reader.
func (r *clockReader) Read(into []byte) (n int, err error) {
	r.wait(func() { n, err = r.from.Read(into) })
	return n, err
}
