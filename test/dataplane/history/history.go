// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history judges what clients of a Kubernetes API saw of objects: is there an order of their requests, true to
// the times at which they were sent and answered, in which every answer is right (linearizability)?
//
// Objects are grouped into collections of a few, which can be listed. A collection is judged for itself. Clients know
// versions from reads, and from answers to their own writes.
package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Size is how many objects a collection has at most.
const Size = 4

// Verb is what a request asks for.
type Verb int

// The verbs. Updates and deletes have a precondition: the version that they change. Reads are those that promise the
// newest state.
const (
	Create Verb = iota
	Update
	Delete
	Get
	List
	// end is when everybody has stopped.
	end
)

var verbs = [...]string{Create: "create", Update: "update", Delete: "delete", Get: "get", List: "list", end: "end"}

// String returns the verb as Kubernetes calls it.
func (v Verb) String() string { return verbs[v] }

// Object is the state of an object: what was written last, and the resourceVersion that it got. The zero Object is none.
type Object struct {
	// Value is different for every write.
	Value int
	// Version is 0 where nobody was told.
	Version uint64
}

func (o Object) exists() bool { return o.Value != 0 }

// Outcome is what is known about a request from its answer.
type Outcome int

const (
	// Done: it was carried out.
	Done Outcome = iota
	// Exists, Missing, Conflict: it was refused for what there is.
	Exists
	Missing
	Conflict
	// Unknown: it may have been carried out, or may still be later.
	Unknown
)

var outcomes = [...]string{Done: "done", Exists: "already exists", Missing: "not found", Conflict: "conflict", Unknown: "unknown"}

// String says it in words.
func (o Outcome) String() string { return outcomes[o] }

// Request is a request and its answer. Requests that certainly had no effect, and failed reads, have no place in a
// history.
type Request struct {
	// Client is who sent it. Nobody sends two at a time.
	Client int
	// Collection and Object, less than Size, say what it is about. A list is about the whole collection.
	Collection string
	Object     int
	Verb       Verb
	// Precondition is the version that an update or delete wants to change.
	Precondition uint64
	// Value is what a create or an update writes.
	Value int

	// Sent and Answered are times on one clock.
	Sent, Answered time.Duration

	Outcome Outcome
	// Version is the one that a write made, and for a list that of the list itself.
	Version uint64
	// Seen is what a read saw: one object, or for a list all of them.
	Seen [Size]Object
}

// Verdict is what can be said of a history.
type Verdict string

// The verdicts. Undecided: there was no time to find out.
const (
	Right     = Verdict(porcupine.Ok)
	Wrong     = Verdict(porcupine.Illegal)
	Undecided = Verdict(porcupine.Unknown)
)

// Check judges a history. It gives up after a time.
func Check(requests []Request, timeout time.Duration) Verdict {
	return Verdict(porcupine.CheckOperationsTimeout(model, operations(requests), timeout))
}

// Draw writes an HTML page that shows a history and how far an order is found within a time. To find the farthest takes
// much longer than to see that there is none.
func Draw(requests []Request, timeout time.Duration, path string) error {
	_, info := porcupine.CheckOperationsVerbose(model, operations(requests), timeout)
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		return fmt.Errorf("cannot draw a history: %w", err)
	}
	return nil
}

// state is that of a collection.
type state struct {
	objects [Size]Object
	// version is the highest that anybody was told. Writes get higher ones.
	version uint64
	ended   bool
}

var model = porcupine.Model{
	Partition:         partition,
	Init:              func() any { return state{} },
	Step:              func(s, request, _ any) (bool, any) { return s.(state).step(request.(Request)) },
	DescribeOperation: func(request, _ any) string { return request.(Request).String() },
	DescribeState:     func(s any) string { return s.(state).String() },
}

func partition(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, operation := range history {
		name := operation.Input.(Request).Collection
		parts[name] = append(parts[name], operation)
	}
	var names []string
	for name := range parts {
		names = append(names, name)
	}
	slices.Sort(names)
	partitions := make([][]porcupine.Operation, 0, len(names))
	for _, name := range names {
		partitions = append(partitions, parts[name])
	}
	return partitions
}

// step returns whether the answer of a request is right in a state, and the state afterwards.
func (s state) step(r Request) (bool, state) {
	switch {
	case s.ended:
		return true, s
	case r.Verb == end:
		s.ended = true
		return true, s
	case r.Verb == Get:
		return s.get(r)
	case r.Verb == List:
		return s.list(r)
	case r.Outcome == Exists, r.Outcome == Missing, r.Outcome == Conflict:
		return s.objects[r.Object].refuses(r), s
	case !s.objects[r.Object].admits(r):
		return false, s
	}
	s.objects[r.Object] = Object{Value: written(r), Version: r.Version}
	return s.sees(r.Version)
}

// sees returns the state after somebody was told of a write's version. Who deletes is not told one.
func (s state) sees(version uint64) (bool, state) {
	if version == 0 {
		return true, s
	}
	if version <= s.version {
		return false, s
	}
	s.version = version
	return true, s
}

func (s state) get(r Request) (bool, state) {
	return s.reveal(r.Object, r.Seen[r.Object])
}

// list has all objects, as they were at the list's own version or before.
func (s state) list(r Request) (right bool, after state) {
	after = s
	for i, seen := range r.Seen {
		if seen.Version > r.Version {
			return false, s
		}
		if right, after = after.reveal(i, seen); !right {
			return false, s
		}
	}
	if r.Version < after.version {
		return false, s
	}
	after.version = r.Version
	return true, after
}

// reveal compares an object with what somebody saw of it, who may have been the first to see its version.
func (s state) reveal(i int, seen Object) (bool, state) {
	now := s.objects[i]
	if seen.exists() && now.Value == seen.Value && now.Version == 0 {
		s.objects[i] = seen
		s.version = max(s.version, seen.Version) // other objects may have been written since
		return true, s
	}
	return seen == now, s
}

// written is the value after a write.
func written(r Request) int {
	if r.Verb == Delete {
		return 0
	}
	return r.Value
}

// admits reports whether a write can be carried out.
func (o Object) admits(r Request) bool {
	if r.Verb == Create {
		return !o.exists()
	}
	return o.exists() && o.Version == r.Precondition
}

// refuses reports whether a write is refused with its outcome.
func (o Object) refuses(r Request) bool {
	switch r.Outcome {
	case Exists:
		return r.Verb == Create && o.exists()
	case Missing:
		return r.Verb != Create && !o.exists()
	case Conflict:
		return r.Verb != Create && o.exists() && o.Version != r.Precondition
	}
	return false
}
