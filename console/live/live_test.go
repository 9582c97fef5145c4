// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
)

const aggregator = "https://127.0.0.1:6443"

// instance is a source with an aggregator, two replicas of core and an etcd.
type instance struct {
	asked       atomic.Int32
	after       int64
	observation up.Observation
	failure     error
}

func newInstance() *instance {
	started := time.Now().Add(-time.Hour)
	running := func(component string, number int, address string) process.Status {
		return process.Status{
			Component: component, Replica: fmt.Sprintf("%s-%d", component, number), PID: 10 + number, Address: address, Ready: true,
			StartTime: started, CPUSeconds: 1, ResidentMemoryBytes: 1 << 20,
		}
	}
	return &instance{observation: up.Observation{
		Processes: []process.Status{
			running("etcd", 0, "https://127.0.0.1:2379"), running("core", 0, "https://127.0.0.1:1"), running("core", 1, "https://127.0.0.1:2"),
			running("aggregator", 0, aggregator),
		},
		Aggregators: []view.Aggregator{{Address: aggregator, Connections: 5, Replicas: []view.Replica{
			{Backend: "core", Endpoint: "127.0.0.1:1", State: "serving", InFlight: 1, Watches: 7},
			{Backend: "core", Endpoint: "127.0.0.1:2", State: "serving", InFlight: 2, Watches: 8},
		}}},
		EtcdRequests: map[string]int64{"https://127.0.0.1:2379": 100},
	}}
}

func (i *instance) observe(_ context.Context, after int64) (*up.Observation, error) {
	i.asked.Add(1)
	i.after = after
	if i.failure != nil {
		return nil, i.failure
	}
	o := i.observation
	o.Time = time.Now()
	o.Aggregators = nil
	for _, seen := range i.observation.Aggregators {
		seen.Replicas = slices.Clone(seen.Replicas)
		o.Aggregators = append(o.Aggregators, seen)
	}
	return &o, nil
}

// next returns the picture after the one that the caller has.
func next(t *testing.T, f *Follower, p *Picture) *Picture {
	t.Helper()
	var version int64
	if p != nil {
		version = p.Version
	}
	got, err := f.Next(t.Context(), version)
	require.NoError(t, err)
	return got
}

func replicaIn(t *testing.T, p *Picture, name string) Replica {
	t.Helper()
	for _, s := range p.Services {
		for _, r := range s.Replicas {
			if r.Name == name {
				return r
			}
		}
	}
	t.Fatalf("no replica %s", name)
	return Replica{}
}

func TestCountersBecomeRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance()
		f := New(Instance(i.observe))
		f.numbersEvery = 0
		p := next(t, f, nil)
		assert.Equal(t, Number{}, p.Rate, "nothing to compare with")
		assert.Equal(t, known(5), p.Connections)
		for range 4 {
			one, two := &i.observation.Aggregators[0].Replicas[0], &i.observation.Aggregators[0].Replicas[1]
			one.Requests, two.Requests = one.Requests+30, two.Requests+10
			one.Timed, one.Durations = one.Timed+30, []view.Duration{{Bound: 0.01, Count: one.Timed / 2}, {Bound: 0.5, Count: one.Timed + 30}}
			two.Timed, two.Durations = two.Timed+10, []view.Duration{{Bound: 0.01, Count: 0}, {Bound: 0.5, Count: 0}}
			i.observation.EtcdRequests["https://127.0.0.1:2379"] += 50
			i.observation.Processes[1].CPUSeconds += 0.25
			p = next(t, f, p)
		}
		one, two := replicaIn(t, p, "core-0"), replicaIn(t, p, "core-1")
		assert.Equal(t, known(30), one.Rate)
		assert.Equal(t, known(0.75), one.Share)
		assert.Equal(t, known(0.25), one.CPU)
		assert.Equal(t, known(0.5), one.P99, "half of the requests took longer than 10 ms")
		assert.Equal(t, known(math.Inf(1)), two.P99, "all took longer than any bound")
		assert.Equal(t, []Number{known(1), known(7)}, []Number{one.InFlight, one.Watches})
		all := replicaIn(t, p, "aggregator-0")
		assert.Equal(t, []Number{known(40), known(3), known(15)}, []Number{all.Rate, all.InFlight, all.Watches})
		assert.Equal(t, known(40), p.Rate)
		assert.Equal(t, Number{}, replicaIn(t, p, "etcd-0").Rate, "etcd is asked more rarely")
		assert.Equal(t, []string{"aggregator", "core", "etcd"}, []string{p.Services[0].Name, p.Services[1].Name, p.Services[2].Name})

		// An aggregator that starts anew counts from 0, and so does a process.
		first := &i.observation.Aggregators[0].Replicas[0]
		first.Requests, first.Timed, first.Durations = 5, 5, nil
		i.observation.Processes[1].PID, i.observation.Processes[1].CPUSeconds = 99, 0.1
		p = next(t, f, p)
		one = replicaIn(t, p, "core-0")
		assert.Equal(t, known(25), one.Rate, "125 in 5 s")
		assert.Equal(t, known(0.2), one.CPU)
		p = next(t, f, p)
		assert.InDelta(t, 200./6, replicaIn(t, next(t, f, p), "etcd-0").Rate.Value, 5)
	})
}

func TestNumbersAloneWaitForAPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance()
		f := New(Instance(i.observe))
		p := next(t, f, nil)
		took := func(want time.Duration, why string) {
			began := time.Now()
			p = next(t, f, p)
			assert.Equal(t, want, time.Since(began), why)
		}
		took(interval, "rates are known")
		i.observation.Aggregators[0].Replicas[0].Requests += 30
		took(numbersEvery, "only numbers change")
		assert.Equal(t, known(30/4.), replicaIn(t, p, "core-0").Rate, "30 requests in 4 s")
		i.observation.Aggregators[0].Replicas[1].State = "unready"
		took(interval, "a replica is unready")
		i.observation.Differences = []string{"core at 127.0.0.1:1 differs"}
		took(interval, "settings differ")
		i.observation.Processes[1].Restarts++
		took(interval, "a process has restarted")
		took(numbersEvery, "nothing changes")
		assert.Same(t, p, next(t, f, nil), "another page has the same picture")
	})
}

func TestARequestForAPictureWaitsForTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance()
		f := New(Instance(i.observe))
		f.numbersEvery = 0
		first := next(t, f, nil)
		assert.Same(t, first, next(t, f, nil), "another page, in the same second")
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			synctest.Wait() // while others wait
			assert.Same(t, first, next(t, f, nil))
			assert.Zero(t, time.Since(began))
		})
		for range 20 {
			all.Go(func() { assert.NotEqual(t, first.Version, next(t, f, first).Version) })
		}
		all.Wait()
		assert.Equal(t, interval, time.Since(began))
		assert.EqualValues(t, 2, i.asked.Load(), "they share the answer")

		time.Sleep(time.Hour)
		assert.EqualValues(t, 2, i.asked.Load(), "nothing is done while no page is open")
		ctx, cancel := context.WithCancel(t.Context())
		p := next(t, f, first)
		assert.Equal(t, p.At, p.Since, "it has begun to watch anew")
		cancel()
		_, err := f.Next(ctx, p.Version)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestAnInstanceThatEndsLeavesItsLastPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance()
		i.failure = errors.New("no instance runs")
		f := New(Instance(i.observe))
		_, err := f.Next(t.Context(), 0)
		assert.ErrorIs(t, err, i.failure)
		i.failure = nil
		_, err = f.Next(t.Context(), 0)
		assert.Error(t, err, "failures are not asked about more often, either")
		time.Sleep(interval)
		before := next(t, f, nil)
		i.failure = errors.New("no instance runs")
		after := next(t, f, before)
		assert.Equal(t, "no instance runs", after.Failure)
		assert.Equal(t, before.Services, after.Services)
		i.failure = nil
		assert.Empty(t, next(t, f, after).Failure)
	})
}

func TestATimelineHasStatesAndEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance()
		f := New(Instance(i.observe))
		p := next(t, f, nil)
		states := func() (all []State) {
			for _, lane := range p.Lanes {
				if lane.Replica == "core-0" {
					for _, span := range lane.Spans {
						all = append(all, span.State)
					}
				}
			}
			return all
		}
		assert.Equal(t, []State{Serving}, states())
		assert.Equal(t, p.At.Add(-Covers), replicaIn(t, p, "core-0").Since, "there was no event for so long")
		first, process0 := &i.observation.Aggregators[0].Replicas[0], &i.observation.Processes[1]
		first.State = "draining"
		p = next(t, f, p)
		assert.Equal(t, "serving → draining", p.Changes[0].Text)
		assert.Equal(t, p.At, replicaIn(t, p, "core-0").Since)

		i.observation.Events = []up.Event{{Number: 7, Time: time.Now(), Component: "core", Replica: "core-0", Type: process.Exited, Text: "died"}}
		i.observation.LastEvent = 7
		process0.PID, process0.Ready, process0.Message, first.State = 0, false, "restarts in 0.5s", "refusing"
		p = next(t, f, p)
		gone := replicaIn(t, p, "core-0")
		assert.Equal(t, Gone, gone.State)
		assert.Equal(t, "restarts in 0.5s", gone.Why)
		i.observation.Events = []up.Event{{Number: 8, Time: time.Now(), Component: "core", Replica: "core-0", Type: process.Started, Text: "starting"}}
		i.observation.LastEvent = 8
		process0.PID, process0.Message, process0.StartTime, process0.Restarts = 77, "waits for etcd", time.Now(), 1
		p = next(t, f, p)
		assert.EqualValues(t, 7, i.after, "only later events")
		assert.Equal(t, Returning, replicaIn(t, p, "core-0").State)
		i.observation.Events, process0.Ready, process0.Message, first.State = nil, true, "", "serving"
		p = next(t, f, p)
		assert.Equal(t, []State{Serving, Draining, Gone, Returning, Serving}, states())
		var texts []string
		for _, change := range p.Changes {
			texts = append(texts, change.Replica+" "+change.Text)
		}
		assert.Equal(t, []string{"core-0 returning → serving", "core-0 starting", "core-0 died", "core-0 serving → draining"}, texts)

		// A replica that stops because it is not used any more has no view of an aggregator.
		stops := i.observation.Aggregators[0].Replicas
		i.observation.Aggregators[0].Replicas = stops[1:]
		i.observation.Events = []up.Event{{Number: 9, Time: time.Now(), Component: "core", Replica: "core-0", Type: process.Stopping, Text: "stopping"}}
		i.observation.LastEvent = 9
		p = next(t, f, p)
		i.observation.Events = nil
		p = next(t, f, p)
		assert.Equal(t, Draining, replicaIn(t, p, "core-0").State)
		assert.Equal(t, []State{Serving, Draining, Gone, Returning, Serving, Draining}, states())
		i.observation.Aggregators[0].Replicas = stops

		// A replica that is removed is gone, and forgotten later.
		i.observation.Processes = append(i.observation.Processes[:1], i.observation.Processes[2:]...)
		i.observation.Aggregators[0].Replicas = i.observation.Aggregators[0].Replicas[1:]
		p = next(t, f, p)
		assert.Equal(t, Gone, states()[len(states())-1])
		time.Sleep(Covers + time.Minute)
		p = next(t, f, p)
		assert.Empty(t, states())
		assert.Empty(t, p.Changes)
		assert.NotContains(t, f.counters, "core-0")
	})
}

func TestTheMemoryOfAFollowerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance()
		f := New(Instance(i.observe))
		var p *Picture
		for turn := range 200 {
			i.observation.Events = nil
			for n := range 100 {
				i.observation.LastEvent++
				i.observation.Events = append(i.observation.Events, up.Event{Number: i.observation.LastEvent, Time: time.Now(), Replica: fmt.Sprintf("r-%d", turn*3+n), Type: process.EventType(n % 5), Text: "x"})
			}
			for k := range i.observation.Aggregators[0].Replicas {
				i.observation.Aggregators[0].Replicas[k].State = string(order[turn%len(order)])
			}
			p = next(t, f, p)
		}
		assert.LessOrEqual(t, len(p.Lanes), maxLanes)
		assert.LessOrEqual(t, len(p.Changes), maxChanges)
		for _, lane := range p.Lanes {
			assert.LessOrEqual(t, len(lane.Spans), maxSpans+1)
		}
		for name, c := range f.counters {
			assert.LessOrEqual(t, len(c.samples), maxSamples, name)
		}
	})
}

func TestStatesOfReplicas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		process  *process.Status
		views    map[State]int
		wasReady bool
		want     State
		why      string
	}{
		"a process without views":      {&process.Status{PID: 1, Ready: true}, nil, true, Ready, ""},
		"one that has ended":           {&process.Status{Message: "restarts in 1s"}, map[State]int{"serving": 1}, true, Gone, "restarts in 1s"},
		"one that starts":              {&process.Status{PID: 1, Message: "waits for etcd"}, nil, false, Starting, "waits for etcd"},
		"one that returns":             {&process.Status{PID: 1, Restarts: 2}, map[State]int{"refusing": 2}, false, Returning, ""},
		"one that is not ready":        {&process.Status{PID: 1, Message: "waits for etcd"}, map[State]int{"unready": 1}, true, Unready, "waits for etcd"},
		"one that aggregators dispute": {&process.Status{PID: 1, Ready: true}, map[State]int{"serving": 2, "ejected": 1}, true, "ejected", "for 1 of 3 aggregators"},
		"one that hangs":               {&process.Status{PID: 1, Ready: true}, map[State]int{"frozen": 1}, true, "frozen", ""},
		"a state of a later version":   {&process.Status{PID: 1, Ready: true}, map[State]int{"dreaming": 1}, true, "dreaming", ""},
		"one that is not a process":    {nil, map[State]int{"draining": 1}, true, Draining, ""},
	} {
		state, why := stateOf(tc.process, tc.views, tc.wasReady)
		assert.Equal(t, tc.want, state, name)
		assert.Equal(t, tc.why, why, name)
	}
	assert.Equal(t, []Kind{Good, Reserved, Bad, Bad}, []Kind{Serving.Kind(), Returning.Kind(), Gone.Kind(), State("dreaming").Kind()})
}

func TestReplicasWithoutAProcessAreThoseOfAggregators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance()
		i.observation.Aggregators[0].Replicas = append(i.observation.Aggregators[0].Replicas,
			view.Replica{Backend: "v1.wardle.example.com", Endpoint: "192.0.2.1:443", State: "ejected", Watches: 2})
		i.observation.Differences = []string{"core at 127.0.0.1:2: the gate X is on"}
		p := next(t, New(Instance(i.observe)), nil)
		other := replicaIn(t, p, "v1.wardle.example.com at 192.0.2.1:443")
		assert.Equal(t, State("ejected"), other.State)
		assert.Equal(t, -1, other.Restarts)
		assert.Equal(t, "v1.wardle.example.com", p.Services[2].Name)
		assert.True(t, replicaIn(t, p, "core-1").Differs)
		assert.False(t, replicaIn(t, p, "core-0").Differs)
	})
}
