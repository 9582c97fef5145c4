// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package procs

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAServiceRestsAfterAWhileAndWorksAtOnce(t *testing.T) {
	var s state
	now := time.Unix(1000, 0)
	for _, step := range []struct {
		after time.Duration
		share float64
		rests bool
	}{
		{0, 0.02, false},
		{while - time.Second, 0.02, false},
		{time.Second, 0.02, true},
		{time.Second, 0.06, true}, // between little and some, nothing changes
		{every, 0.3, true},        // a garbage collection
		{every, 0.02, true},
		{every, 0.09, true},
		{every, 0.09, false},
		{time.Second, 0.02, false},
		{while - time.Second, 0.05, false}, // the while begins anew
		{time.Second, 0.02, false},
		{while, 0.02, true},
		{every, 2, false},
	} {
		now = now.Add(step.after)
		assert.Equal(t, step.rests, s.next(step.share, now), "%+v", step)
	}
}

func TestTheProcessorsComeBack(t *testing.T) {
	all := runtime.GOMAXPROCS(0)
	if all == 1 {
		t.Skip("this machine has one processor")
	}
	defer runtime.SetDefaultGOMAXPROCS()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		used := time.Duration(0)
		go run(ctx, func() time.Duration { return used })
		time.Sleep(while + 2*every)
		assert.Equal(t, 1, runtime.GOMAXPROCS(0), "a service that did nothing for a while")
		used += every
		time.Sleep(2 * every)
		assert.Equal(t, all, runtime.GOMAXPROCS(0), "a service with work")
	})
}

func TestAFixedNumberOfProcessorsStays(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2")
	before := runtime.NumGoroutine()
	Start(t.Context())
	assert.Equal(t, before, runtime.NumGoroutine())
}

func TestUsedGrows(t *testing.T) {
	before := used()
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
		runtime.Gosched()
	}
	assert.Greater(t, used(), before)
}
