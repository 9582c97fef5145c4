// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package procs lets a service that rests run with one processor of Go (a P). With more, each timer that rings wakes another thread, which
// looks for work and finds none. A service that rests does nothing but look at timers, so it pays for that all the time.
//
// With work, the service gets its processors back: it looks every half second how much processor time it has taken. At worst it serves the
// first one and a half seconds of a load as on a machine with one processor.
//
// $GOMAXPROCS replaces all this.
//
// Measured on 2026-11-30 on a machine with two CPUs: two instances of `tripod up` that rest side by side, with and without this package.
// The three services take 0.82 to 0.87 of the processor time, and have 0.70 to 0.75 of the context switches (three looks of 20 s each).
// This compares the same:
//
//	make bench BENCH_ARGS='-sides "" -variant all=bin -variant-env all=GOMAXPROCS=2 -variant rest=bin -profile 0 -run START'
//
// Fewer processors under load, too, were tried and are not worth it: writes at 200 a second take 6 % less processor time, but their p99
// is 1.29 times as long.
package procs

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// every is the time between two looks at the processor time.
	every = 500 * time.Millisecond
	// A service rests when it has taken less than little of a processor over a while. It works when it takes more than some at two looks in
	// a row, which a garbage collection of a small heap seldom does, or over a while, or more than much at one. At rest, core takes a
	// hundredth of a processor, and a quarter of one at the look with a garbage collection. At 200 small requests a second it takes a
	// quarter all the time.
	little, some, much = 0.04, 0.08, 0.5
	while              = 10 * time.Second
)

// whole is the number of processors that this process had before it rested, or 0.
var whole atomic.Int64

// Number returns how many processors this process has while it works.
func Number() int {
	if n := int(whole.Load()); n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// Start sets the number of processors of this process until the context ends. It returns at once.
func Start(ctx context.Context) {
	if isFree() {
		go run(ctx, used)
	}
}

// isFree reports whether nothing else has chosen the number of processors, and there is more than one.
func isFree() bool {
	if _, set := os.LookupEnv("GOMAXPROCS"); set {
		return false
	}
	chosen := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	if runtime.GOMAXPROCS(0) != chosen {
		runtime.GOMAXPROCS(chosen)
		return false
	}
	return chosen > 1
}

// run sets the number of processors by what used returns.
func run(ctx context.Context, used func() time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	before, at := used(), time.Now()
	s := state{since: at}
	for {
		select {
		case <-ctx.Done():
			if s.rests {
				work() // to stop is work, too
			}
			return
		case <-tick.C:
		}
		after, now := used(), time.Now()
		switch rests := s.rests; {
		case s.next(after-before, at, now) == rests: // to set it again would stop the program for a moment
		case rests:
			work()
		default:
			whole.Store(int64(runtime.GOMAXPROCS(0))) // first, so that Number never sees the one
			runtime.GOMAXPROCS(1)
		}
		before, at = after, now
	}
}

// work gives the process its processors back, which then follow the limit of the container again.
func work() {
	runtime.SetDefaultGOMAXPROCS()
	whole.Store(0)
}

// used returns the processor time that this process has taken.
func used() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it cannot fail for a process itself
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// state is whether a service rests, since when its processor time is summed up, the sum, and the share at the last look.
type state struct {
	rests bool
	since time.Time
	sum   time.Duration
	last  float64
}

// next returns whether the service rests, by the processor time that it took between two looks.
func (s *state) next(took time.Duration, before, now time.Time) bool {
	share := took.Seconds() / now.Sub(before).Seconds()
	if share > much || min(share, s.last) > some {
		s.rests, s.since = false, now
		s.sum = 0
	} else {
		s.sum += took
		if over := now.Sub(s.since); over >= while {
			whole := s.sum.Seconds() / over.Seconds()
			s.rests = whole < little || s.rests && whole < some
			s.since, s.sum = now, 0
		}
	}
	s.last = share
	return s.rests
}
