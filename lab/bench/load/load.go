// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	longest = time.Minute
	digits  = 3
)

// ErrNoMore is returned by an operation that has nothing left to do, such as a DELETE when all objects are gone. It ends the load.
var ErrNoMore = errors.New("there is nothing more to do")

// Operation sends a request, and does what belongs to it.
type Operation func(context.Context) error

// Result is what was measured.
type Result struct {
	*Times
	// Requests counts the requests that ended, Errors those of them with no answer or none of 2xx.
	Requests, Errors int64
	// Error is the first of the errors.
	Error error
	// Elapsed is from when the first request was due to the last answer.
	Elapsed time.Duration
}

// PerSecond returns how many requests were answered in a second.
func (r *Result) PerSecond() float64 { return float64(r.Requests-r.Errors) / r.Elapsed.Seconds() }

// Times are measured times, safe for use by several goroutines.
type Times struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram
}

// NewTimes returns times without a measurement.
func NewTimes() *Times {
	return &Times{histogram: hdrhistogram.New(1, longest.Microseconds(), digits)}
}

// Add adds a time.
func (t *Times) Add(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.histogram.RecordValue(min(max(took, time.Microsecond), longest).Microseconds()) // it is within the bounds
}

// Count returns how many times were added.
func (t *Times) Count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.histogram.TotalCount()
}

// Milliseconds returns the time below which percent of all times are.
func (t *Times) Milliseconds(percent float64) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return float64(t.histogram.ValueAtPercentile(percent)) / 1000
}

// Offered is a load at a fixed rate.
type Offered struct {
	PerSecond float64
	Duration  time.Duration
	// Workers is how many operations run at a time at most. An operation waits if all workers are busy.
	Workers int
	// Observe gets when each operation was due, how long it took from then, and its error. It may be nil.
	Observe func(due time.Time, took time.Duration, err error)
}

// Offer starts an operation at each tick of a clock. Its time counts from the tick.
func Offer(ctx context.Context, offered Offered, do Operation) *Result {
	total := int(offered.PerSecond * offered.Duration.Seconds())
	due := make(chan time.Time, total)
	r := newRun(ctx)
	r.observe = offered.Observe
	for range offered.Workers {
		r.workers.Go(func() {
			for at := range due {
				if !r.one(at, do) {
					return
				}
			}
		})
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range total {
		at := r.start.Add(time.Duration(float64(i) / offered.PerSecond * float64(time.Second)))
		timer.Reset(time.Until(at))
		select {
		case <-timer.C:
			due <- at
		case <-r.ctx.Done():
		}
	}
	close(due)
	return r.end()
}

// Saturate runs clients that each start an operation when their last one has ended.
func Saturate(ctx context.Context, clients int, duration time.Duration, do Operation) *Result {
	r := newRun(ctx)
	until := r.start.Add(duration)
	for range clients {
		r.workers.Go(func() {
			for now := r.start; now.Before(until) && r.one(now, do); now = time.Now() {
				continue
			}
		})
	}
	return r.end()
}

// run is a load that goes on.
type run struct {
	ctx     context.Context
	stop    context.CancelFunc
	start   time.Time
	observe func(due time.Time, took time.Duration, err error)
	workers sync.WaitGroup

	mu     sync.Mutex
	result Result
}

func newRun(ctx context.Context) *run {
	r := &run{start: time.Now(), result: Result{Times: NewTimes()}}
	r.ctx, r.stop = context.WithCancel(ctx)
	return r
}

// one runs the operation that was due at a time, and reports whether the load goes on.
func (r *run) one(due time.Time, do Operation) bool {
	if r.ctx.Err() != nil {
		return false
	}
	// When one operation returns that it is done, requests that were already sent still finish.
	err := do(context.WithoutCancel(r.ctx))
	if errors.Is(err, ErrNoMore) {
		r.stop()
		return false
	}
	took := time.Since(due)
	r.result.Add(took)
	if r.observe != nil {
		r.observe(due, took, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Requests++
	if err != nil {
		r.result.Errors++
		if r.result.Error == nil {
			r.result.Error = err
		}
	}
	return true
}

func (r *run) end() *Result {
	r.workers.Wait()
	r.stop()
	r.result.Elapsed = time.Since(r.start)
	return &r.result
}
