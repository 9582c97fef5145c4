// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"time"
)

// EventType says what happened to a child.
type EventType int

// What can happen to a child.
const (
	Started EventType = iota
	Ready
	NotReady
	Exited
	GaveUp
	Stopping
	Stopped
)

// Event is something that happened to a child.
type Event struct {
	Type               EventType
	Component, Replica string
	// PID is set for Started.
	PID int
	// After is the time from the start of the process to its first Ready or to Exited, from NotReady to the next Ready,
	// or from the request to stop to Stopped.
	After time.Duration
	// Again is set when a process is Ready that was so before.
	Again bool
	// RestartIn is the wait before the next start, for Exited.
	RestartIn time.Duration
	// Err says why a child exited, was given up or is NotReady any more, or that it had to be killed, for Stopped.
	Err error
}

// String returns the event as one line for people, without the name of the child.
func (e Event) String() string {
	switch e.Type {
	case Started:
		return fmt.Sprintf("starting (pid %d)", e.PID)
	case Ready:
		if e.Again {
			return "ready again after " + Seconds(e.After)
		}
		return "ready after " + Seconds(e.After)
	case NotReady:
		return fmt.Sprintf("not ready any more: %v", e.Err)
	case Exited:
		return fmt.Sprintf("died after %s and restarts in %s: %v", Seconds(e.After), Seconds(e.RestartIn), e.Err)
	case GaveUp:
		return fmt.Sprintf("cannot start: %v", e.Err)
	case Stopping:
		return "stopping"
	case Stopped:
		if e.Err != nil {
			return fmt.Sprintf("stopped after %s: %v", Seconds(e.After), e.Err)
		}
		return "stopped after " + Seconds(e.After)
	}
	return "unknown event"
}

// Seconds writes a duration the way that reads well in a line: 0.4s, 12.0s, 3m20s.
func Seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
