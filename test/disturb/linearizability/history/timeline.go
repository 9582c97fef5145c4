// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"fmt"
)

// EventType is the type of an event of a watch, as Kubernetes calls it.
type EventType string

// The types of events. A bookmark is about no object.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
)

// Event is an event of a watch of a collection.
type Event struct {
	Type   EventType
	Object int
	// Value is the one that the object has, or had when it was deleted.
	Value   int
	Version uint64
}

// String shows an event in a line.
func (e Event) String() string {
	return fmt.Sprintf("%s %d = %d@%d", e.Type, e.Object, e.Value, e.Version)
}

// Timeline is how a collection was over the time of a watch.
type Timeline struct {
	// objects are the states of each object, in their order.
	objects [Size][]moment
}

// moment is the state of an object from a version of the collection on. There is none before the first.
type moment struct {
	from   uint64
	object Object
}

// Follow returns the events of a watch that began before anything was written to a collection and went on until nothing was
// any more. It fails unless the watch reports every write, once and in order, and of nothing that no client wrote.
func Follow(requests []Request, events []Event) (*Timeline, error) {
	t, open, last := &Timeline{}, openWrites(requests), uint64(0)
	for _, e := range events {
		switch {
		case e.Type == Bookmark && e.Version < last, e.Type != Bookmark && e.Version <= last:
			return nil, fmt.Errorf("%v comes after version %d", e, last)
		}
		last = e.Version
		if e.Type == Bookmark {
			continue
		}
		w, err := t.cause(e)
		if err != nil {
			return nil, err
		}
		if !open.take(w, e.Version) {
			return nil, fmt.Errorf("%v when the object is %v, which nobody wrote", e, t.newest(e.Object))
		}
		now := Object{}
		if e.Type != Deleted {
			now = Object{Value: e.Value, Version: e.Version}
		}
		t.objects[e.Object] = append(t.objects[e.Object], moment{e.Version, now})
	}
	return t, open.missed()
}

func (t *Timeline) newest(object int) Object {
	if moments := t.objects[object]; len(moments) > 0 {
		return moments[len(moments)-1].object
	}
	return Object{}
}

// cause returns the write that an event must come from.
func (t *Timeline) cause(e Event) (write, error) {
	now := t.newest(e.Object)
	switch {
	case e.Type == Added && !now.exists():
		return write{verb: Create, object: e.Object, value: e.Value}, nil
	case e.Type == Modified && now.exists():
		return write{verb: Update, object: e.Object, value: e.Value, precondition: now.Version}, nil
	case e.Type == Deleted && now.exists() && e.Value == now.Value:
		return write{verb: Delete, object: e.Object, precondition: now.Version}, nil
	}
	return write{}, fmt.Errorf("%v when the object is %v", e, now)
}

// write distinguishes a write from others. Of deletes there may be several that are the same.
type write struct {
	verb          Verb
	object, value int
	precondition  uint64
}

// writes are those that a watch has still to report.
type writes map[write][]Request

func openWrites(requests []Request) writes {
	open := writes{}
	for _, r := range requests {
		if !r.writes() || r.Outcome != Done && r.Outcome != Unknown {
			continue
		}
		w := write{verb: r.Verb, object: r.Object, value: r.Value, precondition: r.Precondition}
		open[w] = append(open[w], r)
	}
	return open
}

// take takes out a write that made a version: one that was certainly done, if there is one.
func (open writes) take(w write, version uint64) bool {
	found := -1
	for i, r := range open[w] {
		switch {
		case r.Version != 0 && r.Version != version:
		case found < 0, r.Outcome == Done:
			found = i
		}
	}
	if found < 0 {
		return false
	}
	open[w] = append(open[w][:found:found], open[w][found+1:]...)
	return true
}

// missed returns an error for the writes that were done and that no event reported.
func (open writes) missed() error {
	var errs []error
	for _, requests := range open {
		for _, r := range requests {
			if r.Outcome == Done {
				errs = append(errs, fmt.Errorf("no event tells of: %v", r))
			}
		}
	}
	return errors.Join(errs...)
}

// Check returns an error for every request that was answered from a cache with something that never was, or that was
// not there any more at the version that the client asked for.
func (t *Timeline) Check(requests []Request) error {
	var errs []error
	for _, r := range requests {
		if r.Cached && !t.allows(r) {
			errs = append(errs, fmt.Errorf("client %d at %v: %v", r.Client, r.Sent, r))
		}
	}
	return errors.Join(errs...)
}

func (t *Timeline) allows(r Request) bool {
	if r.Verb == Get {
		return t.was(r.Object, r.Seen[r.Object], r.NotBefore)
	}
	for i, seen := range r.Seen {
		if t.at(i, r.Version) != seen {
			return false
		}
	}
	return r.Version >= r.NotBefore
}

// at returns an object as it was at a version of the collection.
func (t *Timeline) at(object int, version uint64) (was Object) {
	for _, m := range t.objects[object] {
		if m.from > version {
			break
		}
		was = m.object
	}
	return was
}

// was reports whether an object was in a state at a version of the collection, or later.
func (t *Timeline) was(object int, state Object, version uint64) bool {
	if t.at(object, version) == state {
		return true
	}
	for _, m := range t.objects[object] {
		if m.from > version && m.object == state {
			return true
		}
	}
	return false
}
