// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/local/process"
)

// State is that of a replica, in the words of docs/operate.md.
type State string

// States that are not those of replicas for an aggregator.
const (
	// Ready is the state of a process of which no aggregator has a view, such as an etcd.
	Ready State = "ready"
	// Gone: the process has ended.
	Gone State = "gone"
	// Starting: the process was not ready yet. Returning: it was ready before it ended.
	Starting  State = "starting"
	Returning State = "returning"
)

// States of a replica for an aggregator.
const (
	Serving  State = "serving"
	Draining State = "draining"
	Unready  State = "unready"
)

// order has the states of replicas for aggregators, the best first.
var order = []State{Serving, Draining, "busy", "held-back", "ejected", "unprobed", Unready, "refusing", "silent", "frozen"}

// Kind is how much a state is worth.
type Kind string

// Good replicas get requests. Those of the kind Reserved get some if no good one is left, and others none unless all checks fail.
const (
	Good     Kind = "good"
	Reserved Kind = "reserved"
	Bad      Kind = "bad"
)

// Kind returns how much a state is worth.
func (s State) Kind() Kind {
	switch s {
	case Serving, Ready:
		return Good
	case Draining, "busy", "held-back", Starting, Returning, "unprobed":
		return Reserved
	}
	return Bad
}

// stateOf returns the state of a replica. The process is nil if the instance has not started it. Views count the aggregators by the state
// that the replica has for them. WasReady is whether the process has been ready since it started.
func stateOf(p *process.Status, views map[State]int, wasReady bool) (state State, why string) {
	switch {
	case p != nil && p.PID == 0 && !p.Ready:
		return Gone, p.Message
	case len(views) > 0:
		state, why = worst(views)
	case p != nil && p.Ready:
		return Ready, ""
	default:
		state = Unready
	}
	if p == nil {
		return state, why
	}
	if p.Message != "" && state.Kind() != Good {
		why = strings.TrimSuffix(p.Message+"; "+why, "; ")
	}
	comesUp := slices.Contains([]State{Unready, "unprobed", "refusing"}, state)
	switch {
	case comesUp && !wasReady && !p.Ready && p.Restarts > 0:
		return Returning, why
	case comesUp && !wasReady && !p.Ready:
		return Starting, why
	}
	return state, why
}

// worst returns the last state in the order, and how many aggregators see a better one.
func worst(views map[State]int) (state State, why string) {
	at, all := -1, 0
	for s, n := range views {
		all += n
		if rank := slices.Index(order, s); rank > at {
			state, at = s, rank
		}
	}
	if at < 0 { // of a later version
		for s := range views {
			state = max(state, s)
		}
	}
	if n := views[state]; n < all {
		why = fmt.Sprintf("for %d of %d aggregators", n, all)
	}
	return state, why
}

// stateAfter returns the state of a process after an event.
func stateAfter(t process.EventType, seenBefore bool) (state State, changes bool) {
	switch t {
	case process.Started:
		if seenBefore {
			return Returning, true
		}
		return Starting, true
	case process.Ready:
		return Ready, true
	case process.NotReady:
		return Unready, true
	case process.Stopping:
		return Draining, true
	case process.Exited, process.GaveUp, process.Stopped:
		return Gone, true
	}
	return "", false
}

// readiness remembers which processes have been ready since their start.
type readiness map[string]time.Time

// note returns whether the process has been ready.
func (r readiness) note(p *process.Status) bool {
	if p.Ready {
		r[p.Replica] = p.StartTime
	}
	started, ever := r[p.Replica]
	return ever && started.Equal(p.StartTime)
}
