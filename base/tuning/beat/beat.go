// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package beat lets the timers of watch caches ring together. Each watch cache of k8s.io/apiserver has a timer for bookmarks, which rings
// every 1 to 1.25 s, whether anything watches or not. So an idle core with 60 watch caches wakes up 50 times a second, and extensions with
// 3,000 definitions 2,700 times. Each time, the system has to wake threads, which take more processor time than the work itself. `go run
// ./lab/bench -wakes 10s` counts how often processors of Go begin to run.
package beat

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// period is the time between two beats of a clock.
	period = time.Second
	// phases are the beats of all clocks within a period. With thousands of watch caches, few ring at the same time.
	phases = 8
	// long is the first duration that a clock does not change: who waits longer wakes up seldom.
	long = 2 * time.Second
)

var (
	epoch   = time.Now()
	clocked atomic.Int64
)

// Clock is a clock.RealClock, except that timers of one to two seconds ring at a beat: up to a second early, and never late.
type Clock struct {
	clock.RealClock
	phase time.Duration
}

// NewClock returns a clock for one watch cache.
func NewClock() *Clock {
	return &Clock{phase: time.Duration(clocked.Add(1)%phases) * period / phases}
}

// NewTimer implements clock.Clock.
func (c *Clock) NewTimer(d time.Duration) clock.Timer {
	return timer{c.RealClock.NewTimer(c.adjust(time.Since(epoch), d)), c}
}

type timer struct {
	clock.Timer
	of *Clock
}

// Reset implements clock.Timer.
func (t timer) Reset(d time.Duration) bool {
	return t.Timer.Reset(t.of.adjust(time.Since(epoch), d))
}

// adjust returns the duration until the last beat before a timer would ring. now is the time since the epoch.
func (c *Clock) adjust(now, d time.Duration) time.Duration {
	if d < period || d >= long {
		return d
	}
	return (now + d - c.phase).Truncate(period) + c.phase - now
}
