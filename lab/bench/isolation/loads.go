// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

const (
	// readsPerSecond and writesPerSecond are the load of the clients of each subject.
	readsPerSecond, writesPerSecond = 50, 10
	// requestTimeout is how long a client waits for an answer. Then the request has failed.
	requestTimeout = 5 * time.Second
	// workers are enough for all requests that wait for an answer at a time.
	workers = 400
	objects = 20
	atMost  = time.Hour
	// namespace has all objects.
	namespace = "default"
)

// payload makes objects 1 KB large.
var payload = strings.Repeat("0123456789abcdef", 50)

// subject is whose requests are measured.
type subject struct {
	name, collection, apiVersion, kind string
}

func subjects() []subject {
	custom := func(name, group string) subject {
		return subject{name, "/apis/" + group + "/v1/namespaces/" + namespace + "/widgets", group + "/v1", "Widget"}
	}
	return []subject{
		custom(ofTeam, teamGroup),
		{ofCore, "/api/v1/namespaces/" + namespace + "/configmaps", "v1", "ConfigMap"},
		custom(ofOther, widgetGroup),
	}
}

// The names of the subjects.
const (
	ofTeam  = "custom resources of the other team"
	ofCore  = "ConfigMaps"
	ofOther = "custom resources of the team with the fault"
)

func (s subject) get(name string) load.Request {
	return load.Request{Method: http.MethodGet, Path: s.collection + "/" + name}
}

// apply returns a server-side apply of an object that changes at each time.
func (s subject) apply(name string) load.Request {
	return load.Request{
		Method: http.MethodPatch, Path: s.collection + "/" + name + "?fieldManager=bench&force=true", ContentType: "application/apply-patch+yaml",
		Body: fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"data":{"text":%q,"sent":"%d"}}`,
			s.apiVersion, s.kind, name, payload, time.Now().UnixNano()),
	}
}

// request is one that was measured.
type request struct {
	due           time.Time
	took          time.Duration
	write, failed bool
}

// measured is what happened on one side.
type measured struct {
	Side   string
	Phases []phase

	mu       sync.Mutex
	requests map[string][]request
}

// phase is the time of a fault.
type phase struct {
	Name         string
	Began, Ended time.Time
	// Note is a remark for the table.
	Note string

	label string
}

// loads are the clients.
type loads struct{ stop func() }

// startLoads has the clients of all subjects send requests until they are stopped.
func (m *measured) startLoads(ctx context.Context, t *target) (*loads, error) {
	m.requests = map[string][]request{}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	l := &loads{stop: func() { cancel(); running.Wait() }}
	for _, s := range subjects() {
		client, err := load.NewClient(t.Admin(), connections)
		if err != nil {
			l.stop()
			return nil, err
		}
		for i := range objects {
			if err := client.Do(ctx, s.apply(fmt.Sprintf("object-%d", i))); err != nil {
				l.stop()
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
		for _, write := range []bool{false, true} {
			running.Go(func() { m.offer(ctx, client, s, write) })
		}
	}
	return l, nil
}

// offer sends the reads or the writes of a subject.
func (m *measured) offer(ctx context.Context, client *load.Client, s subject, write bool) {
	rate, of := float64(readsPerSecond), s.get
	if write {
		rate, of = writesPerSecond, s.apply
	}
	var next atomic.Int64
	load.Offer(ctx, load.Offered{PerSecond: rate, Duration: atMost, Workers: workers, Observe: func(due time.Time, took time.Duration, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.requests[s.name] = append(m.requests[s.name], request{due, took, write, err != nil})
	}}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return client.Do(ctx, of(fmt.Sprintf("object-%d", next.Add(1)%objects)))
	})
}

// during returns how long the reads or the writes of a subject took that were due in an interval, and how many of them failed.
func (m *measured) during(subject string, write bool, from, to time.Time) (times *load.Times, failed int) {
	times = load.NewTimes()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests[subject] {
		if r.write != write || r.due.Before(from) || !r.due.Before(to) {
			continue
		}
		if r.failed {
			failed++
			continue
		}
		times.Add(r.took)
	}
	return times, failed
}

// has returns nil if discovery has a resource.
func has(answer []byte, plural string, err error) error {
	if err == nil && !strings.Contains(string(answer), fmt.Sprintf(`"name":%q`, plural)) {
		err = errors.New("discovery does not have it")
	}
	return err
}
