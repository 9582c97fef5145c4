// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"time"
)

// EventType is the kind of an event.
type EventType int

// The kinds of events.
const (
	Started EventType = iota
	Ready
	NotReady
	Exited
	GaveUp
	Stopping
	Stopped
)

// Event says what happened to a child.
type Event struct {
	Type               EventType
	Component, Replica string
	// PID is set for Started.
	PID int
	// After is a time: for the first Ready and for Exited, since the process started; for a later Ready, since NotReady; for Stopped, since
	// the request to stop.
	After time.Duration
	// Again is set if the same process was ready before.
	Again bool
	// RestartIn is the wait before the next start, for Exited.
	RestartIn time.Duration
	// Err says why a child exited, was given up or is no longer ready. For Stopped, it says that the child had to be killed.
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

// Seconds formats a duration for a line of text: 0.4s, 12.0s, 3m20s.
func Seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
