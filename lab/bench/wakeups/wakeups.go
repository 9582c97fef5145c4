// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wakeups counts what wakes up in a Go program, by its execution trace (runtime/trace).
package wakeups

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/exp/trace"
)

// Goroutines are those that do the same: they run a function, and waited for the same kind of thing, in the words of the runtime.
type Goroutines struct{ Function, Waited string }

// MarshalText makes them a key of JSON.
func (g Goroutines) MarshalText() ([]byte, error) { return []byte(g.Function + ": " + g.Waited), nil }

// Started is what Goroutines that began to run have waited for.
const Started = "its start"

// Counts are what a trace has of one process.
type Counts struct {
	// Woken counts how often goroutines could run again, and how often they began to run.
	Woken map[Goroutines]float64
	// Processors counts how often a processor of the Go scheduler (a P) began to run. Each time, the system may have to wake a thread.
	Processors float64
}

// Read counts what wakes up in a trace.
func Read(r io.Reader) (*Counts, error) {
	reader, err := trace.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("not an execution trace: %w", err)
	}
	c := counter{Counts: Counts{Woken: map[Goroutines]float64{}}, waiting: map[trace.GoID]string{}, functions: map[trace.GoID]string{}}
	for {
		event, err := reader.ReadEvent()
		if errors.Is(err, io.EOF) {
			return &c.Counts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the execution trace: %w", err)
		}
		if event.Kind() == trace.EventStateTransition {
			c.add(event.StateTransition())
		}
	}
}

// Minus returns the counts less others, of a trace that was times as long.
func (c *Counts) Minus(other *Counts, times float64) *Counts {
	result := &Counts{Woken: map[Goroutines]float64{}, Processors: c.Processors - other.Processors/times}
	for of, n := range c.Woken {
		result.Woken[of] = n - other.Woken[of]/times
	}
	return result
}

// Divide makes all counts those of one of n.
func (c *Counts) Divide(n float64) {
	c.Processors /= n
	for of := range c.Woken {
		c.Woken[of] /= n
	}
}

// Frequent returns the goroutines that woke up at least so often, those first that did so most often.
func (c *Counts) Frequent(least float64) []Goroutines {
	all := slices.DeleteFunc(slices.Collect(maps.Keys(c.Woken)), func(of Goroutines) bool { return c.Woken[of] < least })
	slices.SortFunc(all, func(a, b Goroutines) int {
		return cmp.Or(cmp.Compare(c.Woken[b], c.Woken[a]), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Waited, b.Waited))
	})
	return all
}

// Total is how often any goroutine woke up.
func (c *Counts) Total() (sum float64) {
	for _, n := range c.Woken {
		sum += n
	}
	return sum
}

// counter knows of each goroutine what it runs, and what it waits for.
type counter struct {
	Counts
	functions, waiting map[trace.GoID]string
}

func (c *counter) add(t trace.StateTransition) {
	switch t.Resource.Kind {
	case trace.ResourceProc:
		if from, to := t.Proc(); from == trace.ProcIdle && to == trace.ProcRunning {
			c.Processors++
		}
	case trace.ResourceGoroutine:
		c.addGoroutine(t.Resource.Goroutine(), t)
	case trace.ResourceNone, trace.ResourceThread:
	}
}

func (c *counter) addGoroutine(id trace.GoID, t trace.StateTransition) {
	// A goroutine of a helper shows only later what it does.
	if function := outermost(t.Stack); function != "" {
		c.functions[id] = function
	}
	switch from, to := t.Goroutine(); {
	case to == trace.GoWaiting && t.Reason != "": // each second, the trace repeats without a reason who waits
		c.waiting[id] = t.Reason
	case from == trace.GoNotExist && to == trace.GoRunnable:
		c.Woken[Goroutines{c.functions[id], Started}]++
	case from == trace.GoWaiting && to == trace.GoRunnable:
		c.Woken[Goroutines{c.functions[id], c.waiting[id]}]++
	case to == trace.GoNotExist:
		delete(c.functions, id)
		delete(c.waiting, id)
	}
}

// helpers start with what runs functions of others.
var helpers = []string{"sync.(*WaitGroup).Go", "wait."}

// outermost returns the function that a goroutine was started with, or the one that a helper calls for it, without the path of its package.
// It returns nothing if the stack is not known.
func outermost(stack trace.Stack) (function string) {
	for frame := range stack.Frames() {
		name := frame.Func[strings.LastIndex(frame.Func, "/")+1:]
		isHelper := slices.ContainsFunc(helpers, func(helper string) bool { return strings.HasPrefix(name, helper) })
		if !isHelper || function == "" {
			function = name
		}
	}
	return function
}
