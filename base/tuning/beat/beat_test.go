// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package beat

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestTimersRingAtABeat(t *testing.T) {
	c := &Clock{phase: 250 * time.Millisecond}
	for _, test := range []struct{ now, d, want time.Duration }{
		{now: 0, d: time.Second, want: 250 * time.Millisecond},
		{now: 250 * time.Millisecond, d: time.Second, want: time.Second},
		{now: 250 * time.Millisecond, d: 1250 * time.Millisecond, want: time.Second},
		{now: 251 * time.Millisecond, d: 1250 * time.Millisecond, want: 999 * time.Millisecond},
		{now: 100 * time.Millisecond, d: 1200 * time.Millisecond, want: 1150 * time.Millisecond},
		// These are not changed.
		{now: 100 * time.Millisecond, d: 100 * time.Millisecond, want: 100 * time.Millisecond},
		{now: 100 * time.Millisecond, d: 3 * time.Second, want: 3 * time.Second},
	} {
		require.Equal(t, test.want, c.adjust(test.now, test.d), "%v", test)
	}
	for range 10_000 {
		now, d := rand.N(time.Hour), period+rand.N(long-period)
		got := c.adjust(now, d)
		require.Positive(t, got)
		require.LessOrEqual(t, got, d)
		require.Equal(t, c.phase, (now+got)%period)
	}
}

// TestWatchCachesRingTogether has timers as watch caches do.
func TestWatchCachesRingTogether(t *testing.T) {
	real := epoch
	defer func() { epoch = real }()
	synctest.Test(t, func(t *testing.T) {
		epoch = time.Now()
		rung := map[time.Time]int{}
		const caches, seconds = 80, 10
		ringing := make(chan time.Time)
		for range caches {
			go func() {
				time.Sleep(rand.N(time.Second)) // they do not start at the same time
				timer := NewClock().NewTimer(wait.Jitter(time.Second, 0.25))
				defer timer.Stop()
				for range seconds {
					ringing <- <-timer.C()
					timer.Reset(wait.Jitter(time.Second, 0.25))
				}
			}()
		}
		for range caches * seconds {
			rung[<-ringing]++
		}
		require.LessOrEqual(t, len(rung), phases*(seconds+2), "%v", rung)
	})
}
