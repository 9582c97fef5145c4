// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"io"
	"time"
)

// clock ends a request for which a member takes too long. It runs only while search waits for the member, not while the member waits for
// search.
type clock struct {
	left  time.Duration
	timer *time.Timer
}

// newClock returns a clock that calls a function in a goroutine when the member has taken all of its time.
func newClock(most time.Duration, end func()) *clock {
	c := &clock{left: most, timer: time.AfterFunc(most, end)}
	c.timer.Stop()
	return c
}

// wait calls a function that waits for the member.
func (c *clock) wait(do func()) {
	began := time.Now()
	c.timer.Reset(c.left)
	do()
	c.timer.Stop()
	c.left -= time.Since(began)
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
