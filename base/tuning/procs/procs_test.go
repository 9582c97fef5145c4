// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package procs

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAServiceRestsAfterAWhileAndWorksAtOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	s := state{since: now}
	for _, step := range []struct {
		after time.Duration
		share float64
		rests bool
	}{
		{while - every, 0.02, false},
		{every, 0.3, true}, // a garbage collection is part of rest
		{time.Second, 0.06, true},
		{while, 0.06, true}, // between little and some, nothing changes
		{every, 0.3, true},
		{every, 0.02, true},
		{every, 0.09, true},
		{every, 0.09, false},
		{while - time.Second, 0.02, false},
		{every, 0.7, false}, // the while begins anew
		{while - time.Second, 0.02, false},
		{time.Second, 0.02, true},
		{every, 2, false},
		{while, 0.07, false},
		{while, 0.03, true},
		{while / 2, 0.3, true}, // the first look with so much
		{while / 2, 0, false},  // but it was too much over a while
	} {
		before := now
		now = now.Add(step.after)
		took := time.Duration(step.share * float64(step.after))
		assert.Equal(t, step.rests, s.next(took, before, now), "%+v", step)
	}
}

func TestTheProcessorsComeBack(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	if all == 1 {
		t.Skip("this machine has one processor")
	}
	for name, work := range map[string]func(used *atomic.Int64, stop func()){
		"with work":          func(used *atomic.Int64, _ func()) { used.Add(int64(every)) },
		"when the rest ends": func(_ *atomic.Int64, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var used atomic.Int64
				go run(ctx, func() time.Duration { return time.Duration(used.Load()) })
				time.Sleep(while + 2*every + time.Millisecond)
				assert.Equal(t, 1, runtime.GOMAXPROCS(0), "a service that did nothing for a while")
				assert.Equal(t, all, Number())
				work(&used, cancel)
				time.Sleep(every)
				synctest.Wait()
				assert.Equal(t, all, runtime.GOMAXPROCS(0))
				assert.Equal(t, all, Number())
			})
		})
	}
}

func TestANumberThatWasChosenStays(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	runtime.GOMAXPROCS(3)
	assert.False(t, isFree(), "the program chose it")
	assert.Equal(t, 3, runtime.GOMAXPROCS(0))
	runtime.SetDefaultGOMAXPROCS()
	t.Setenv("GOMAXPROCS", "2")
	assert.False(t, isFree(), "$GOMAXPROCS chose it")
}

func TestUsedGrows(t *testing.T) {
	for before := used(); used() == before; {
		runtime.Gosched()
	}
}
