// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/up"
	"github.com/tripod-k8s/tripod/services/list"
)

// Picture is an instance at a moment, or a cluster as an aggregator sees it. It does not change.
type Picture struct {
	// Version differs between two pictures.
	Version int64
	At      time.Time
	// Failure is why the source does not answer. The rest is as it was then, at At.
	Failure  string
	Services []Service
	// Rate is that of requests that aggregators send on, per second, and Connections are those of clients.
	Rate        Number
	Connections Number
	// Differences are those between settings, a line each.
	Differences []string
	// Lanes have the states of replicas over time, and Changes are what happened, the latest first.
	Lanes   []Lane
	Changes []Change
	// Since is when the follower began to watch, without a longer break.
	Since time.Time
	// View is set if the picture is the view of one aggregator. Every is the time until the next picture, and Over that over which requests
	// are counted.
	View        *View
	Every, Over time.Duration
	// LeftOff is how many replicas the picture does not have, because they are too many, or their names too long.
	LeftOff int
}

// View names the aggregator of a picture. It does not change.
type View struct {
	// Started is when its process started, which may be unknown.
	Started time.Time
	Version string
	// Since is when it answered first, and Others whether another aggregator has answered before.
	Since  time.Time
	Others bool
}

// Service are the replicas of a service, or of another component.
type Service struct {
	Name     string
	Replicas []Replica
	// Rate is that of its requests per second.
	Rate Number
	// Serving is how many replicas are of the kind Good.
	Serving int
}

// Replica is a process, or what aggregators know of one that the instance has not started.
type Replica struct {
	Service, Name, Address string
	State                  State
	// Why explains the state.
	Why string
	// Since is when it changed, if the follower has seen that.
	Since time.Time
	// Rate is that of requests per second, and Share is that of the service: 0 to 1.
	Rate, Share       Number
	InFlight, Watches Number
	// CPU is a share of one processor. Memory is in bytes.
	CPU, Memory Number
	// P99 is the time in seconds within which 99 of 100 requests of the last minute ended. It is the upper bound of a bucket, or infinite.
	P99     Number
	Version string
	Started time.Time
	// Restarts is -1 if unknown.
	Restarts int
	// Differs is whether its settings differ from those of others.
	Differs bool
}

// Number is a number that may be unknown.
type Number struct {
	Value float64
	Known bool
}

func known(value float64) Number { return Number{value, true} }

// Lane are the states of a replica in the time that the timeline covers, the oldest first.
type Lane struct {
	Replica string
	Spans   []Span
}

// Span is a state that a replica had from a time on.
type Span struct {
	From  time.Time
	State State
}

// Change is what happened to a replica.
type Change struct {
	At            time.Time
	Replica, Text string
}

// Covers is how much time the timeline covers.
const Covers = up.EventsFor

// looksLike reports whether two pictures have the same replicas in the same states, with the same history. Their numbers may differ.
func (p *Picture) looksLike(other *Picture) bool {
	same := func(a, b Replica) bool {
		return a.Name == b.Name && a.State == b.State && a.Why == b.Why && a.Restarts == b.Restarts &&
			a.Rate.Known == b.Rate.Known && a.CPU.Known == b.CPU.Known
	}
	return p.Failure == other.Failure && p.LeftOff == other.LeftOff && slices.Equal(p.Differences, other.Differences) &&
		slices.EqualFunc(p.Services, other.Services, func(a, b Service) bool { return slices.EqualFunc(a.Replicas, b.Replicas, same) }) &&
		slices.EqualFunc(p.Lanes, other.Lanes, func(a, b Lane) bool { return slices.Equal(a.Spans, b.Spans) }) &&
		slices.Equal(p.Changes, other.Changes) && ptr.Equal(p.View, other.View)
}

// add puts a replica into its service.
func (p *Picture) add(r Replica) {
	at := slices.IndexFunc(p.Services, func(s Service) bool { return s.Name == r.Service })
	if at < 0 {
		at = len(p.Services)
		p.Services = append(p.Services, Service{Name: r.Service})
	}
	p.Services[at].Replicas = append(p.Services[at].Replicas, r)
}

// complete sums up, and sorts services as a request meets them.
func (p *Picture) complete(o *up.Observation) {
	slices.SortStableFunc(p.Services, func(a, b Service) int { return floorOf(a.Name) - floorOf(b.Name) })
	for i := range p.Services {
		s := &p.Services[i]
		for k := range s.Replicas {
			r := &s.Replicas[k]
			if r.Rate.Known {
				s.Rate = known(s.Rate.Value + r.Rate.Value)
			}
			if r.State.Kind() == Good {
				s.Serving++
			}
		}
		for k := range s.Replicas {
			if r := &s.Replicas[k]; r.Rate.Known && s.Rate.Value > 0 {
				r.Share = known(r.Rate.Value / s.Rate.Value)
			}
		}
		if s.Name == list.Aggregator {
			p.Rate = s.Rate
		}
	}
	for i := range o.Aggregators {
		p.Connections = known(p.Connections.Value + float64(o.Aggregators[i].Connections))
		p.LeftOff += o.Aggregators[i].LeftOff
	}
}

// floorOf returns the place of a process on the way of a request: services of Tripod, from the aggregators down, all others, and etcd.
func floorOf(name string) int {
	services := list.Names()
	switch at := slices.Index(services, ServiceOf(name)); {
	case at >= 0:
		return at
	case name == names.Etcd:
		return len(services) + 1
	}
	return len(services)
}

// ServiceOf returns the service whose program a process runs: extensions for a partition of it.
func ServiceOf(name string) string {
	if _, isPartition := addresses.PartitionOf(name); isPartition {
		return list.Extensions
	}
	return name
}
