// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package attention

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestATimerOfAProcessThatRunsIsOnTime(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 250 * time.Millisecond, 2 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			called := make(chan struct{})
			AfterFunc(d, func() time.Duration { close(called); return 0 })
			<-called
			assert.Equal(t, d, time.Since(began))
		})
	}
}

func TestATimerThatIsResetStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		called := make(chan struct{})
		timer := AfterFunc(3*time.Second, func() time.Duration { close(called); return 0 })
		for range 10 {
			time.Sleep(2900 * time.Millisecond)
			timer.Reset(3 * time.Second)
		}
		<-called
		assert.Equal(t, 32*time.Second, time.Since(began))
	})
}

func TestATimerThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var calls []time.Duration
		timer := AfterFunc(3*time.Second, func() time.Duration {
			calls = append(calls, time.Since(began))
			return time.Second
		})
		time.Sleep(5500 * time.Millisecond)
		timer.Reset(3 * time.Second)
		time.Sleep(3500 * time.Millisecond)
		timer.Stop()
		time.Sleep(time.Minute)
		assert.Equal(t, []time.Duration{3 * time.Second, 4 * time.Second, 5 * time.Second, 8500 * time.Millisecond}, calls)
	})
}

func TestATimerThatIsStoppedDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := AfterFunc(3*time.Second, func() time.Duration { t.Error("it does something"); return 0 })
		time.Sleep(2 * time.Second)
		timer.Stop()
		time.Sleep(time.Minute)
	})
}

// TestAnObserverThatStoodStillDoubtsItself lets a slice end late, as in a process that was stopped.
func TestAnObserverThatStoodStillDoubtsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		called := make(chan struct{})
		stands := sync.OnceFunc(func() { time.Sleep(10 * time.Second) })
		yield = stands
		defer func() { yield = runtime.Gosched }()
		AfterFunc(2*time.Second, func() time.Duration { close(called); return 0 })
		<-called
		// Of these 10 s, the rest of one slice counts.
		assert.Greater(t, time.Since(began), 11*time.Second)
		assert.Less(t, time.Since(began), 12500*time.Millisecond)
	})
}

func TestATimeoutSaysThatTheTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := WithTimeout(t.Context(), time.Second)
		defer cancel()
		child, stop := context.WithCancel(ctx)
		defer stop()
		<-child.Done()
		assert.ErrorIs(t, context.Cause(child), context.DeadlineExceeded)
		again, cancel := WithTimeout(t.Context(), time.Second)
		cancel()
		assert.ErrorIs(t, again.Err(), context.Canceled)
	})
}
