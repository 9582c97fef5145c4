// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/local/up"
)

// Bounds of a timeline, if replicas change all the time.
const (
	maxLanes   = 200
	maxSpans   = 60
	maxChanges = 300
)

// timeline has the changes of replicas.
type timeline struct {
	lanes   map[string][]Span
	changes []Change
}

// set notes the state of a replica at a time. An event of the instance has a text of its own.
func (t *timeline) set(at time.Time, replica string, state State, text string) {
	if t.lanes == nil {
		t.lanes = map[string][]Span{}
	}
	spans := t.lanes[replica]
	if len(spans) == 0 && len(t.lanes) >= maxLanes {
		return
	}
	if len(spans) > 0 {
		last := &spans[len(spans)-1]
		switch {
		case last.State == state:
		case last.State.Kind() == Good && state.Kind() == Good: // the first view of an aggregator is no change
			last.State = state
			return
		default:
			if text == "" {
				text = string(last.State) + " → " + string(state)
			}
			t.lanes[replica] = append(spans, Span{later(at, last.From), state})
		}
	} else {
		t.lanes[replica] = []Span{{at, state}}
	}
	if spans = t.lanes[replica]; len(spans) > maxSpans {
		t.lanes[replica] = slices.Delete(spans, 0, len(spans)-maxSpans)
	}
	t.note(at, replica, text)
}

// note adds a text about a replica, unless it is empty.
func (t *timeline) note(at time.Time, replica, text string) {
	if text == "" {
		return
	}
	t.changes = append(t.changes, Change{at, replica, text})
	if excess := len(t.changes) - maxChanges; excess > 0 {
		t.changes = slices.Delete(t.changes, 0, excess)
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// seen returns whether a replica has a state.
func (t *timeline) seen(replica string) bool { return len(t.lanes[replica]) > 0 }

// last returns the latest state of a replica, or none.
func (t *timeline) last(replica string) State {
	spans := t.lanes[replica]
	if len(spans) == 0 {
		return ""
	}
	return spans[len(spans)-1].State
}

// since returns when the present state of a replica began.
func (t *timeline) since(replica string) time.Time {
	spans := t.lanes[replica]
	if len(spans) == 0 {
		return time.Time{}
	}
	return spans[len(spans)-1].From
}

// take adds an event of the instance.
func (t *timeline) take(e *up.Event) {
	state, changes := stateAfter(e.Type, t.seen(e.Replica))
	if !changes {
		t.note(e.Time, e.Replica, e.Text)
		return
	}
	t.set(e.Time, e.Replica, state, e.Text)
}

// forget drops what is too old, and replicas that are gone for so long. A replica that is not present any more is gone.
func (t *timeline) forget(now time.Time, present map[string]bool) {
	begin := now.Add(-Covers)
	for replica, spans := range t.lanes {
		if !present[replica] && spans[len(spans)-1].State != Gone {
			t.set(now, replica, Gone, "")
			spans = t.lanes[replica]
		}
		first := 0 // the last one that began before the timeline
		for i, span := range spans {
			if span.From.Before(begin) {
				first = i
			}
		}
		t.lanes[replica] = slices.Delete(spans, 0, first)
		if spans = t.lanes[replica]; !present[replica] && len(spans) == 1 && spans[0].From.Before(begin) {
			delete(t.lanes, replica)
		}
	}
	t.changes = slices.DeleteFunc(t.changes, func(c Change) bool { return c.At.Before(begin) })
}

// copies returns the lanes of replicas in an order, then others, and the changes, the latest first.
func (t *timeline) copies(ordered []string) (lanes []Lane, changes []Change) {
	names := slices.SortedFunc(maps.Keys(t.lanes), func(a, b string) int {
		place := func(name string) int {
			if at := slices.Index(ordered, name); at >= 0 {
				return at
			}
			return len(ordered)
		}
		if c := place(a) - place(b); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		lanes = append(lanes, Lane{name, slices.Clone(t.lanes[name])})
	}
	changes = slices.Clone(t.changes)
	slices.Reverse(changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return b.At.Compare(a.At) })
	return lanes, changes
}
