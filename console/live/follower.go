// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
	"github.com/tripod-k8s/tripod/services/list"
)

const (
	// pause is the time without requests after which the follower begins to watch anew.
	pause = 10 * time.Second
	// numbersEvery is the time after which a picture with other numbers follows, if nothing else has changed.
	// A page takes a browser 10 to 30 ms, so this is a third of what it would take every second.
	numbersEvery = 3 * time.Second
	// maxReplicas bounds what is remembered.
	maxReplicas = 500
)

// Follower follows a source while pages ask for pictures.
type Follower struct {
	source Source
	// turn is taken by the one who uses the rest.
	turn chan struct{}

	picture *Picture
	// painted is when the source gave the answer of the picture, and numbersEvery the time after which other numbers are another picture.
	painted      time.Time
	numbersEvery time.Duration
	// failure is why there is no picture.
	failure error
	// tried is when the source was asked last, and every the time until the next question.
	tried     time.Time
	every     time.Duration
	lastEvent int64
	// view is set if the source is one aggregator.
	view *View
	// usedCPU is the processor time of that aggregator, and noted when the timeline last named a change of it.
	usedCPU float64
	noted   time.Time
	// ways are the last views of aggregators, by aggregator, backend and endpoint.
	ways     map[way]view.Replica
	counters map[string]*counters
	ready    readiness
	timeline timeline
}

// way is from an aggregator to a replica.
type way struct{ aggregator, backend, endpoint string }

// New returns a follower of a source.
func New(source Source) *Follower {
	f := &Follower{source: source, turn: make(chan struct{}, 1), numbersEvery: numbersEvery}
	f.restart()
	return f
}

// restart forgets what counters were, so that rates begin anew.
func (f *Follower) restart() {
	f.ways, f.counters, f.ready = map[way]view.Replica{}, map[string]*counters{}, readiness{}
}

// Next returns a picture with another version than the one that the caller has. It waits for that. What it says about states is not older
// than the interval of the source, and its numbers are not older than numbersEvery. The error is that of the source if there is no picture,
// or that of the context.
func (f *Follower) Next(ctx context.Context, known int64) (*Picture, error) {
	for {
		select {
		case f.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var err error
		if f.every <= time.Since(f.tried) {
			err = f.observe(ctx)
		}
		picture, failure, wait := f.picture, f.failure, f.every-time.Since(f.tried)
		<-f.turn // a page that has no picture yet does not wait for those that have
		switch {
		case err != nil:
			return nil, err
		case picture == nil || picture.Version != known:
			return picture, failure
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// observe asks the source. The caller has the turn. The error is that of the context: the source was not asked.
func (f *Follower) observe(ctx context.Context) error {
	observation, err := f.source.Observe(ctx, f.lastEvent)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return ctx.Err()
	}
	watched := time.Since(f.tried) < max(pause, 3*f.every)
	f.tried, f.every = time.Now(), f.source.Interval()
	switch {
	case err == nil:
		f.failure = nil
		f.paint(observation, watched)
	case errors.Is(err, ErrRefused): // the user may not see earlier pictures any more, either
		f.picture, f.failure, f.view, f.timeline = nil, err, nil, timeline{}
		f.restart()
	case f.picture == nil:
		f.failure = err
	default:
		again := *f.picture
		again.Version, again.Failure, again.Every = again.Version+1, Bounded(err.Error()), f.every
		f.picture = &again
	}
	return nil
}

// Bounded returns the begin of a text that a server may have written.
func Bounded(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// paint makes the next picture.
func (f *Follower) paint(o *up.Observation, watched bool) {
	p := &Picture{Version: f.tried.UnixMilli(), At: o.Time, Since: o.Time, Differences: o.Differences}
	if f.picture != nil {
		p.Version = max(p.Version, f.picture.Version+1)
		if watched {
			p.Since = f.picture.Since
		}
	}
	f.recognise(o)
	p.View, p.Every, p.Over = f.view, f.every, f.over()
	known := directoryOf(o.Processes)
	f.count(o, known)
	if o.LastEvent < f.lastEvent { // another instance, which has begun anew
		f.timeline = timeline{}
	}
	for i := range o.Events {
		f.timeline.take(&o.Events[i])
	}
	f.lastEvent = o.LastEvent
	var ordered []string
	present := map[string]bool{}
	for _, r := range f.replicas(o, known) {
		f.timeline.set(f.began(&r, o.Time), r.Name, r.State, "")
		r.Since = f.timeline.since(r.Name)
		present[r.Name] = true
		p.add(r)
	}
	p.complete(o)
	for i := range p.Services {
		for k := range p.Services[i].Replicas {
			ordered = append(ordered, p.Services[i].Replicas[k].Name)
		}
	}
	f.timeline.forget(o.Time, present)
	for name := range f.counters {
		if !present[name] {
			delete(f.counters, name)
			delete(f.ready, name)
		}
	}
	p.Lanes, p.Changes = f.timeline.copies(ordered)
	if f.picture == nil || f.tried.Sub(f.painted) >= f.numbersEvery || !p.looksLike(f.picture) {
		f.picture, f.painted = p, f.tried
	}
}

// recognise finds out whether the view is that of another aggregator than before. It may count less or more, so nothing of the two can be
// compared. An aggregator has a start, and processor time that only grows.
func (f *Follower) recognise(o *up.Observation) {
	if len(o.Aggregators) != 1 || o.Aggregators[0].Process == nil {
		return
	}
	now, before := o.Aggregators[0].Process, f.view
	if before == nil || !before.Started.Equal(now.Started) || now.CPUSeconds < f.usedCPU {
		f.view = &View{Started: now.Started, Version: now.Version, Since: o.Time, Others: before != nil}
		f.restart()
		if before != nil && o.Time.Sub(f.noted) > time.Minute { // a proxy may change between two of them all the time
			f.noted = o.Time
			f.timeline.note(o.Time, list.Aggregator, "another one answers")
		}
	}
	f.usedCPU = now.CPUSeconds
}

// over is the time over which requests are counted: that of two intervals at least.
func (f *Follower) over() time.Duration { return max(rateOver, 2*f.every+time.Second) }

// began returns when a replica got its state. The instance has sent all events of the time that the timeline covers. So a process without
// an event has been ready for so long.
func (f *Follower) began(r *Replica, now time.Time) time.Time {
	if f.timeline.seen(r.Name) || r.State.Kind() != Good || r.Started.IsZero() || f.view != nil {
		return now
	}
	return later(r.Started, now.Add(-Covers))
}

// directory has the names of processes by component and endpoint.
type directory map[[2]string]string

func directoryOf(processes []process.Status) directory {
	d := make(directory, len(processes))
	for i := range processes {
		d[[2]string{processes[i].Component, strings.TrimPrefix(processes[i].Address, "https://")}] = processes[i].Replica
	}
	return d
}

// name returns that of the replica of a backend at an endpoint: that of its process, or the endpoint if the instance has none there.
func (d directory) name(backend, endpoint string) (name string, isProcess bool) {
	if name, isProcess = d[[2]string{backend, endpoint}]; isProcess {
		return name, true
	}
	return backend + " at " + endpoint, false
}

// count adds what has grown to the counters of replicas, and of aggregators.
func (f *Follower) count(o *up.Observation, known directory) {
	of := func(name string) *counters {
		if f.counters[name] == nil {
			f.counters[name] = &counters{}
		}
		return f.counters[name]
	}
	aggregators := map[string]string{}
	for i := range o.Processes {
		s := &o.Processes[i]
		if s.Component == list.Aggregator {
			aggregators[s.Address] = s.Replica
		}
		of(s.Replica).useCPU(s.PID, s.CPUSeconds)
		if n, counts := o.EtcdRequests[s.Address]; counts {
			of(s.Replica).countOwn(n)
		}
	}
	ways := map[way]view.Replica{}
	for i := range o.Aggregators {
		from := &o.Aggregators[i]
		for k := range from.Replicas {
			now := &from.Replicas[k]
			if len(ways) >= maxReplicas*len(o.Aggregators) {
				break
			}
			w := way{from.Address, now.Backend, now.Endpoint}
			ways[w] = *now
			before, seen := f.ways[w]
			if !seen || f.view != nil && now.Requests < before.Requests {
				before = *now // how much of it is new is not known
			}
			name, _ := known.name(now.Backend, now.Endpoint)
			of(name).addRequests(now, &before)
			if sender := aggregators[from.Address]; sender != "" {
				of(sender).addRequests(now, &before)
			}
		}
	}
	f.ways = ways
	for _, c := range f.counters {
		c.keep(o.Time)
	}
}

// replicas returns those of processes, and others that aggregators know.
func (f *Follower) replicas(o *up.Observation, known directory) []Replica {
	var all []Replica
	states := map[string]map[State]int{}
	loads := map[string][2]int64{}
	var others []Replica
	for i := range o.Aggregators {
		from := &o.Aggregators[i]
		for k := range from.Replicas {
			r := &from.Replicas[k]
			name, isProcess := known.name(r.Backend, r.Endpoint)
			_, seen := loads[name]
			loads[name] = [2]int64{loads[name][0] + r.InFlight, loads[name][1] + r.Watches}
			loads[from.Address] = [2]int64{loads[from.Address][0] + r.InFlight, loads[from.Address][1] + r.Watches}
			if r.State != "" {
				if states[name] == nil {
					states[name] = map[State]int{}
				}
				states[name][State(r.State)]++
			}
			if !seen && !isProcess {
				others = append(others, Replica{Service: r.Backend, Name: name, Address: "https://" + r.Endpoint, Restarts: -1})
			}
		}
	}
	for i := range o.Processes {
		all = append(all, f.replicaOf(&o.Processes[i], o, states, loads))
	}
	for _, r := range others {
		r.State, r.Why = stateOf(nil, states[r.Name], true)
		f.addNumbers(&r, loads[r.Name], true, f.over())
		all = append(all, r)
	}
	return all[:min(len(all), maxReplicas)]
}

// replicaOf returns a process as it is shown.
func (f *Follower) replicaOf(s *process.Status, o *up.Observation, states map[string]map[State]int, loads map[string][2]int64) Replica {
	r := Replica{
		Service: s.Component, Name: s.Replica, Address: s.Address, Version: s.Version, Restarts: s.Restarts,
		Memory: Number{float64(s.ResidentMemoryBytes), s.ResidentMemoryBytes > 0},
	}
	r.State, r.Why = stateOf(s, states[s.Replica], f.ready.note(s))
	if s.PID != 0 && len(states[s.Replica]) == 0 && f.timeline.last(s.Replica) == Draining { // it is asked to stop, and no aggregator uses it
		r.State = Draining
	}
	if s.PID != 0 {
		r.Started = s.StartTime
	}
	load, isServed := loads[s.Replica]
	if s.Component == list.Aggregator {
		load, isServed = loads[s.Address]
	}
	over := f.over()
	if _, isEtcd := o.EtcdRequests[s.Address]; isEtcd {
		over = rareRateOver
		f.addNumbers(&r, load, true, over)
		r.InFlight, r.Watches = Number{}, Number{}
		if _, seconds := f.counters[s.Replica].over(over); seconds < rareSeconds { // it was not asked again yet
			r.Rate = Number{}
		}
	} else {
		f.addNumbers(&r, load, isServed, over)
	}
	if r.CPU.Value < 0 || s.CPUSeconds <= 0 {
		r.CPU = Number{}
	}
	address := strings.TrimPrefix(s.Address, "https://")
	r.Differs = address != "" && slices.ContainsFunc(o.Differences, func(line string) bool { return mentions(line, address) })
	return r
}

// mentions returns whether a line names an address, and not one of which it is only a part.
func mentions(line, address string) bool {
	words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ,;()", r) })
	return slices.ContainsFunc(words, func(word string) bool { return strings.TrimSuffix(word, ":") == address })
}

// addNumbers sets what counters and views say. If no aggregator counts the requests of a replica, only the processor time is known.
func (f *Follower) addNumbers(r *Replica, load [2]int64, counted bool, over time.Duration) {
	c := f.counters[r.Name]
	if c == nil {
		return
	}
	rate, cpu := c.rates(over)
	if r.Memory.Known {
		r.CPU = cpu
	}
	if counted {
		r.Rate, r.P99 = rate, c.p99()
		r.InFlight, r.Watches = known(float64(load[0])), known(float64(load[1]))
	}
}
