// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
)

const (
	// openWorkers is how many requests of an offered load run at a time at most. closedClients are the clients of a closed loop.
	openWorkers   = 64
	closedClients = 16
	// warmUp is how long a closed loop runs before anything is measured.
	warmUp = 100 * time.Millisecond
	// afterRest is how long it runs before the first requests of a kind.
	afterRest = 1500 * time.Millisecond
	// fanOutAtLeast is the shortest time of sending events to watchers, because events are few.
	fanOutAtLeast = 3 * time.Second
	// fanOutAttempts is how often watches are measured until a run is complete.
	fanOutAttempts = 3
)

// measure is what is measured of a workload, and its unit.
type measure string

// What is measured. Processor time is that of all processes of the API server, without etcd unless the name says so.
const (
	cpuPerRequest     measure = "CPU ms/request" // which is CPU seconds per 1,000 requests
	cpuWhenBusy       measure = "CPU ms/request at most"
	etcdCPU           measure = "etcd CPU"
	p50               measure = "p50 ms"
	p99               measure = "p99 ms"
	p999              measure = "p99.9 ms"
	perSecond         measure = "requests/s at most"
	failures          measure = "failed requests"
	incompleteRuns    measure = "runs in which a watch missed events"
	cpuPerEvent       measure = "CPU µs/event delivered"
	switches          measure = "context switches"
	systemCalls       measure = "read and write calls"
	resident          measure = "memory MB"
	perWatch          measure = "live kB/watch"
	aggregatorMallocs measure = "allocations in the aggregator"
)

// cpuIn is the share of a service in cpuWhenBusy or cpuPerEvent.
func cpuIn(service string) measure { return measure("CPU in " + service) }

// withEtcd is the same processor time together with that of etcd: users pay for both.
func withEtcd(what measure) measure { return what + " with etcd" }

// values are what was measured.
type values map[measure]float64

// run measures a workload at its rate, and then in a closed loop. A run of watches counts only if each watch got each event: a server that
// ends watches, or sends less, has less to do. If no attempt is complete, the values have only the number of attempts.
func (w workload) run(ctx context.Context, f *fixture, o *options) (values, error) {
	for incomplete := 0.0; ; {
		v, err := w.runOnce(ctx, f, o)
		var missed *incompleteError
		if !errors.As(err, &missed) {
			if err == nil && w.fanOut {
				v[incompleteRuns] = incomplete
			}
			return v, err
		}
		fmt.Fprintf(o.progress, "%s: %s: a run that does not count: %v\n", f.side.Name, w, missed)
		if incomplete++; incomplete == fanOutAttempts {
			return values{incompleteRuns: incomplete}, nil
		}
	}
}

// warmUp is how long a closed loop runs before anything is measured. GETs are the first requests for each resource, and a service that rests
// has all its processors again after a while only.
func (w workload) warmUp() time.Duration {
	if w.Name == "GET" {
		return afterRest
	}
	return warmUp
}

// runOnce is one attempt.
func (w workload) runOnce(ctx context.Context, f *fixture, o *options) (_ values, err error) {
	var before float64
	if w.fanOut {
		if before, err = f.live(ctx); err != nil {
			return nil, err
		}
	}
	do, open, err := w.begin(ctx, f, w.requestsFor(o.duration, w.warmUp()+o.duration))
	if err != nil {
		return nil, err
	}
	if open != nil {
		defer func() { err = errors.Join(err, open.close()) }()
	}
	if w.fanOut {
		return w.runFanOut(ctx, f, o, do, open, before)
	}
	load.Saturate(ctx, closedClients, w.warmUp(), do)
	v, offered := values{}, &load.Result{}
	offer := func() (int64, error) {
		offered = load.Offer(ctx, load.Offered{PerSecond: w.Rate, Duration: o.duration, Workers: openWorkers}, do)
		return offered.Requests, nil
	}
	if w.Name == "GET" && !f.side.isStock() {
		err = f.countMallocs(ctx, v, func() (int64, error) { return offered.Requests, f.charge(v, cpuPerRequest, 1e3, offer) })
	} else {
		err = f.charge(v, cpuPerRequest, 1e3, offer)
	}
	if err != nil {
		return nil, err
	}
	v[p50], v[p99], v[p999] = offered.Milliseconds(50), offered.Milliseconds(99), offered.Milliseconds(99.9)
	closed := &load.Result{}
	if err := f.charge(v, cpuWhenBusy, 1e3, func() (int64, error) {
		closed = load.Saturate(ctx, closedClients, o.duration, do)
		return closed.Requests, nil
	}); err != nil {
		return nil, err
	}
	v[perSecond] = closed.PerSecond()
	w.fail(v, f, o, offered, closed)
	return v, ctx.Err()
}

// begin prepares what n requests need. It returns the operation, and the watches that stay open meanwhile, if any.
func (w workload) begin(ctx context.Context, f *fixture, n int) (load.Operation, *watchers, error) {
	if w.prepare != nil {
		if err := w.prepare(ctx, f, n); err != nil {
			return nil, nil, err
		}
	}
	if w.watchers == 0 {
		return w.operation(f), nil, nil
	}
	of := resources
	if w.fanOut {
		of = slices.DeleteFunc([]resource{configMaps, widgets, flunders}, func(r resource) bool { return r.Name != w.Resource })
	}
	open, err := f.watch(ctx, w.watchers/len(of), w.Credentials, of...)
	return w.operation(f), open, err
}

// runFanOut measures the events that watchers get.
func (w workload) runFanOut(ctx context.Context, f *fixture, o *options, do load.Operation, open *watchers, before float64) (values, error) {
	opened, err := f.live(ctx)
	if err != nil {
		return nil, err
	}
	v, sent := values{perWatch: max(opened-before, 0) / 1e3 / float64(open.count)}, &load.Result{}
	err = f.charge(v, cpuPerEvent, 1e6, func() (int64, error) {
		sent = load.Offer(ctx, load.Offered{PerSecond: w.Rate, Duration: max(o.duration, fanOutAtLeast), Workers: openWorkers}, do)
		return (sent.Requests - sent.Errors) * int64(open.count), open.wait(ctx, sent.Requests-sent.Errors)
	})
	v[p50], v[p99], v[p999] = open.delivered.Milliseconds(50), open.delivered.Milliseconds(99), open.delivered.Milliseconds(99.9)
	w.fail(v, f, o, sent)
	return v, err
}

// fail records failed requests, and reports the first.
func (w workload) fail(v values, f *fixture, o *options, results ...*load.Result) {
	var first error
	for _, result := range results {
		v[failures] += float64(result.Errors)
		first = cmp.Or(first, result.Error)
	}
	if first != nil {
		fmt.Fprintf(o.progress, "%s: %s: %g requests failed: %v\n", f.side.Name, w, v[failures], first)
	}
}

const (
	// settle is how long a server rests before workloads.
	settle = 3 * time.Second
	// idleAfter is how long it must rest to count as idle, and idleFor how long it is looked at then. For half a minute, the services
	// of Tripod still finish their start, and take up to a half more than later.
	idleAfter = 45 * time.Second
	idleFor   = 20 * time.Second
)

// idle returns the share of a processor that an idle side takes.
func (f *fixture) idle(ctx context.Context) (float64, error) {
	if err := pause(ctx, idleAfter); err != nil {
		return 0, err
	}
	start := time.Now()
	before, err := process.CPUOf(f.servers...)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, idleFor); err != nil {
		return 0, err
	}
	after, err := process.CPUOf(f.servers...)
	return (after - before).Seconds() / time.Since(start).Seconds(), err
}

// spent is what processes have used since they started.
type spent struct {
	// cpu has the time of each service, and of etcd.
	cpu                   map[string]time.Duration
	etcd                  time.Duration
	switches, systemCalls int64
}

func spentBy(servers []process.Process, etcd process.Process) (s spent, err error) {
	if s.cpu, err = process.CPUByService(servers); err != nil {
		return s, err
	}
	if s.etcd, err = etcd.CPU(); err != nil {
		return s, err
	}
	s.switches, s.systemCalls, err = process.CountsOf(servers)
	return s, err
}

// charge calls do, which returns how many times it did something, and records what each time cost.
func (f *fixture) charge(v values, as measure, unit float64, do func() (int64, error)) error {
	before, err := spentBy(f.servers, f.etcd)
	if err != nil {
		return err
	}
	n, err := do()
	if err != nil {
		return err
	}
	after, err := spentBy(f.servers, f.etcd)
	if err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return d.Seconds() * unit / float64(n) }
	v[as] = 0
	for service := range after.cpu {
		one := each(after.cpu[service] - before.cpu[service])
		v[as] += one
		if as != cpuPerRequest {
			v[cpuIn(service)] = one
		}
	}
	v[withEtcd(as)] = v[as] + each(after.etcd-before.etcd)
	if as != cpuWhenBusy { // these are of the offered load
		v[etcdCPU] = each(after.etcd - before.etcd)
		v[switches] = float64(after.switches-before.switches) / float64(n)
		v[systemCalls] = float64(after.systemCalls-before.systemCalls) / float64(n)
	}
	v[resident], err = f.resident()
	return err
}

// resident returns the resident memory of all servers, in MB.
func (f *fixture) resident() (sum float64, err error) {
	now, _, err := process.MemoryOf(f.servers)
	for _, one := range now {
		sum += one
	}
	return sum, err
}
