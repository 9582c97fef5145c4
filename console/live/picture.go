// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"time"

	"github.com/tripod-k8s/tripod/local/up"
)

// Picture is an instance at a moment. It does not change.
type Picture struct {
	// Version differs between two pictures.
	Version int64
	At      time.Time
	// Failure is why the instance does not answer. The rest is as it was then, at At.
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
