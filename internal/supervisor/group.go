// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"sync"
)

// Group is a set of children that stop together.
type Group struct {
	notify func(Event)
	failed chan error

	mu       sync.Mutex
	children []*Child
}

// NewGroup returns an empty group. notify is told what happens to the children; it is not called concurrently.
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
	g.children = append(g.children, child)
	g.mu.Unlock()
	return child
}

// WaitReady returns when all given children are ready, when any child of the group was given up, or when ctx ends.
func (g *Group) WaitReady(ctx context.Context, children ...*Child) error {
	for _, child := range children {
		select {
		case <-child.ready:
		case err := <-g.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Failed delivers the error of the first child that was given up.
func (g *Group) Failed() <-chan error { return g.failed }

// Stop stops the children one after the other, the last started first, and returns when none is left.
func (g *Group) Stop() {
	g.mu.Lock()
	children := g.children
	g.mu.Unlock()
	for i := len(children) - 1; i >= 0; i-- {
		children[i].Stop()
	}
}

// Statuses returns the states of all children in the order in which they were started.
func (g *Group) Statuses() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	statuses := make([]Status, 0, len(g.children))
	for _, child := range g.children {
		statuses = append(statuses, child.Status())
	}
	return statuses
}
