// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"slices"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/local/process"
)

const (
	// EventsFor is how long an instance remembers what happened to its processes.
	EventsFor = 15 * time.Minute
	// maxEvents bounds what it remembers, if a process dies again and again.
	maxEvents = 1000
)

// Event is what happened to a process.
type Event struct {
	// Number grows from event to event.
	Number    int64     `json:"number"`
	Time      time.Time `json:"time"`
	Component string    `json:"component"`
	Replica   string    `json:"replica"`
	// Type is one of the events of processes, and Text describes it for people.
	Type process.EventType `json:"type"`
	Text string            `json:"text"`
}

// events are the latest ones.
type events struct {
	mu   sync.Mutex
	list []Event
	last int64
}

func (e *events) add(now time.Time, of process.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	e.list = append(e.forget(now), Event{
		Number: e.last, Time: now, Component: of.Component, Replica: of.Replica, Type: of.Type, Text: of.String(),
	})
	if excess := len(e.list) - maxEvents; excess > 0 {
		e.list = slices.Delete(e.list, 0, excess)
	}
}

// forget returns the events that are not too old.
func (e *events) forget(now time.Time) []Event {
	first := slices.IndexFunc(e.list, func(event Event) bool { return now.Sub(event.Time) <= EventsFor })
	if first < 0 {
		first = len(e.list)
	}
	return slices.Delete(e.list, 0, first)
}

// since returns the events after one, and the number of the last.
func (e *events) since(now time.Time, number int64) ([]Event, int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = e.forget(now)
	first := slices.IndexFunc(e.list, func(event Event) bool { return event.Number > number })
	if first < 0 {
		return nil, e.last
	}
	return slices.Clone(e.list[first:]), e.last
}
