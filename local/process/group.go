// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Group is a set of children that stop together.
type Group struct {
	notify func(Event)
	failed chan error

	mu sync.Mutex
	// children are ordered by when their components started, and within a component by when they started.
	children []*Child
}

// NewGroup returns an empty group. It calls notify with what happens to children, never concurrently.
func NewGroup(notify func(Event)) *Group {
	var mu sync.Mutex
	return &Group{
		failed: make(chan error, 1),
		notify: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			notify(e)
		},
	}
}

// Start starts a child and keeps it running.
func (g *Group) Start(process Process) *Child {
	child := start(process, g.notify, g.failed)
	g.mu.Lock()
	defer g.mu.Unlock()
	place := len(g.children)
	for i, other := range slices.Backward(g.children) {
		if other.process.Component == process.Component {
			place = i + 1
			break
		}
	}
	g.children = slices.Insert(g.children, place, child)
	return child
}

// Remove stops a child, if it runs, and forgets it.
func (g *Group) Remove(child *Child) {
	child.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.children = slices.DeleteFunc(g.children, func(c *Child) bool { return c == child })
}

// WaitReady returns when all the children have been ready, when one of them is given up, or when ctx ends.
func (g *Group) WaitReady(ctx context.Context, children ...*Child) error {
	waiting, ctx := errgroup.WithContext(ctx)
	for _, child := range children {
		waiting.Go(func() error { return child.waitReady(ctx) })
	}
	return waiting.Wait()
}

// Failed delivers the error of the first child that is given up.
func (g *Group) Failed() <-chan error { return g.failed }

// Stop stops all children and returns when none is left. It stops the children of a component together, and starts with the component that
// was started last.
func (g *Group) Stop() {
	g.mu.Lock()
	children := slices.Clone(g.children)
	g.mu.Unlock()
	for len(children) > 0 {
		last := children[len(children)-1].process.Component
		first := slices.IndexFunc(children, func(c *Child) bool { return c.process.Component == last })
		var stopping sync.WaitGroup
		for _, child := range children[first:] {
			stopping.Go(child.Stop)
		}
		stopping.Wait()
		children = children[:first]
	}
}

// Statuses returns the states of all children, grouped by component, in the order of their start.
func (g *Group) Statuses() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	statuses := make([]Status, 0, len(g.children))
	for _, child := range g.children {
		statuses = append(statuses, child.Status())
	}
	return statuses
}
