// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history judges what clients of a Kubernetes API saw of objects.
//
//   - [Check]: is there an order of their requests, true to the times at which they were sent and answered, in which every
//     answer is right (linearizability)?
//   - [Follow]: are the events of a watch what was written, nothing missed, doubled or out of order?
//   - [Timeline.Check]: is what was read from a cache what there once was, and not older than the client asked for?
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

// The verbs. Updates and deletes have a precondition: the version that they change.
const (
	Create Verb = iota
	Update
	Delete
	Get
	List
	// end is when all clients have stopped.
	end
)

var verbs = [...]string{Create: "create", Update: "update", Delete: "delete", Get: "get", List: "list", end: "end"}

// String returns the verb as Kubernetes calls it.
func (v Verb) String() string { return verbs[v] }

// Object is the state of an object: what was written last, and the resourceVersion that it got, 0 where no client got it. The
// zero Object is none.
type Object struct {
	// Value is different for every write.
	Value   int
	Version uint64
}

func (o Object) exists() bool { return o.Value != 0 }

// Outcome is what is known about a request from its answer.
type Outcome int

// The outcomes.
const (
	// Done is the outcome of what was carried out.
	Done Outcome = iota
	// Exists is that of a create that was refused because there is such an object.
	Exists
	// Missing is that of a write that was refused because there is no such object.
	Missing
	// Conflict is that of a write that was refused because the object has another version.
	Conflict
	// Unknown is that of what may have been carried out, or may still be later.
	Unknown
)

var outcomes = [...]string{Done: "done", Exists: "already exists", Missing: "not found", Conflict: "conflict", Unknown: "unknown"}

// String returns it in words.
func (o Outcome) String() string { return outcomes[o] }

// Request is a request and its answer. Requests that certainly had no effect, and failed reads, have no place in a
// history.
type Request struct {
	// Client is the sender. No client sends two at a time: after an unknown outcome a client is another one.
	Client int
	// Collection and Object, less than Size, are what it is about. A list is about the whole collection.
	Collection string
	Object     int
	Verb       Verb
	// Precondition is the version that an update or delete requires.
	Precondition uint64
	// Value is what a create or an update writes.
	Value int
	// Cached is set for a read that does not ask for the newest state, but for one not older than NotBefore.
	Cached    bool
	NotBefore uint64

	// Sent and Answered are times on one clock.
	Sent, Answered time.Duration

	Outcome Outcome
	// Version is the one that a write made, and for a list that of the list itself.
	Version uint64
	// Seen is what a read saw: one object, or for a list all of them.
	Seen [Size]Object
}

func (r Request) writes() bool { return r.Verb < Get }

// reads reports whether it returns the state of an object.
func (r Request) reads(object int) bool { return r.Verb == List || r.Verb == Get && r.Object == object }

// Verdict is the result of checking a history.
type Verdict string

// The verdicts. Undecided: there was no time to find out.
const (
	Right     = Verdict(porcupine.Ok)
	Wrong     = Verdict(porcupine.Illegal)
	Undecided = Verdict(porcupine.Unknown)
)

// Check judges a history but for what was read from caches. It gives up after a time.
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
	// version is the highest that any client got. Writes get higher ones.
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

// sees returns the state after a write whose version a client got. A client that deletes gets none.
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
	return s.objects[r.Object] == r.Seen[r.Object], s
}

// list has all objects, and no write is later than it that was before it.
func (s state) list(r Request) (bool, state) {
	if r.Seen != s.objects || r.Version < s.version {
		return false, s
	}
	s.version = r.Version
	return true, s
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
