// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"math"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/admin/view"
)

const (
	// rateOver is the time over which requests and processor time are counted, and rareRateOver the same for etcd, which is asked every 5 s.
	rateOver     = 5 * time.Second
	rareRateOver = 30 * time.Second
	rareSeconds  = 6
	// keepSamples is the time over which the slowest requests are looked for.
	keepSamples = time.Minute
	maxSamples  = 70
	// maxBounds is the number of bounds of a histogram that count. Aggregators have 12.
	maxBounds = 16
	// slowest is the part of requests that P99 leaves out.
	slowest = 0.01
)

// sample has the counters of a replica at a time.
type sample struct {
	at       time.Time
	requests int64
	cpu      float64
	// timed and durations are as in view.Replica.
	timed     uint64
	durations [maxBounds]uint64
}

// counters of a replica only grow: they go on after its process, or an aggregator that counts, has started anew.
type counters struct {
	now     sample
	bounds  []float64
	samples []sample
	// pid is the process of which lastCPU is, and lastRequests is the last count of a server that counts its own requests.
	pid          int
	lastCPU      float64
	lastRequests int64
	counted      bool
}

// addRequests adds what an aggregator has sent since an earlier view.
func (c *counters) addRequests(now, before *view.Replica) {
	c.now.requests += grown(now.Requests, before.Requests)
	if len(c.bounds) < len(now.Durations) {
		c.bounds = nil
		for _, d := range now.Durations[:min(len(now.Durations), maxBounds)] {
			c.bounds = append(c.bounds, d.Bound)
		}
	}
	if now.Requests < before.Requests {
		before = &view.Replica{}
	}
	c.now.timed += now.Timed - min(now.Timed, before.Timed)
	for i := range min(len(c.bounds), len(now.Durations)) {
		n := now.Durations[i].Count
		if i < len(before.Durations) {
			n -= min(n, before.Durations[i].Count)
		}
		c.now.durations[i] += n
	}
}

// grown returns how much a counter has grown. One that is lower than before has begun anew.
func grown(now, before int64) int64 {
	if now < before {
		return now
	}
	return now - before
}

// countOwn takes the number of requests that a server has counted itself.
func (c *counters) countOwn(requests int64) {
	if c.counted {
		c.now.requests += grown(requests, c.lastRequests)
	}
	c.lastRequests, c.counted = requests, true
}

// useCPU takes the processor time of a process.
func (c *counters) useCPU(pid int, seconds float64) {
	if c.pid == pid && seconds > c.lastCPU {
		c.now.cpu += seconds - c.lastCPU
	}
	c.pid, c.lastCPU = pid, seconds
}

// keep adds a sample.
func (c *counters) keep(at time.Time) {
	c.now.at = at
	c.samples = append(c.samples, c.now)
	first := slices.IndexFunc(c.samples, func(s sample) bool { return at.Sub(s.at) <= keepSamples })
	first = max(first, len(c.samples)-maxSamples)
	c.samples = slices.Delete(c.samples, 0, first)
}

// over returns the sample at the begin of the time before now.
func (c *counters) over(period time.Duration) (from sample, seconds float64) {
	for _, s := range c.samples {
		if c.now.at.Sub(s.at) <= period {
			return s, c.now.at.Sub(s.at).Seconds()
		}
	}
	return c.now, 0
}

// rates returns requests per second, and the share of a processor.
func (c *counters) rates(period time.Duration) (requests, cpu Number) {
	from, seconds := c.over(period)
	if seconds <= 0 {
		return Number{}, Number{}
	}
	return known(float64(c.now.requests-from.requests) / seconds), known((c.now.cpu - from.cpu) / seconds)
}

// p99 returns the bound within which most requests ended.
func (c *counters) p99() Number {
	from, _ := c.over(keepSamples)
	timed := c.now.timed - from.timed
	if timed == 0 || len(c.bounds) == 0 {
		return Number{}
	}
	wanted := uint64(math.Ceil(float64(timed) * (1 - slowest)))
	for i, bound := range c.bounds {
		if c.now.durations[i]-from.durations[i] >= wanted {
			return known(bound)
		}
	}
	return known(math.Inf(1))
}
