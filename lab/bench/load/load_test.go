// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsThatHadToWaitCountFromWhenTheyWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		result := Offer(t.Context(), Offered{PerSecond: 100, Duration: time.Second, Workers: 1}, func(context.Context) error {
			if n.Add(1) == 1 {
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		})
		if result.Requests != 100 {
			t.Errorf("%d requests, want 100", result.Requests)
		}
		// The server hesitated for half a second: half of the requests were due meanwhile.
		for percent, least := range map[float64]float64{99: 480, 75: 240, 55: 40} {
			if got := result.Milliseconds(percent); got < least || got > 505 {
				t.Errorf("p%v is %v ms, want at least %v", percent, got, least)
			}
		}
		if got := result.Milliseconds(45); got > 1 {
			t.Errorf("p45 is %v ms, although half of the requests did not wait", got)
		}
	})
}

func TestRequestsAreOfferedAtTheRateWhileTheServerIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := Offer(t.Context(), Offered{PerSecond: 200, Duration: 2 * time.Second, Workers: 64}, func(context.Context) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		if result.Requests != 400 || result.Milliseconds(99.9) > 101 {
			t.Errorf("%d requests, p99.9 %v ms; want 400 that took 100 ms", result.Requests, result.Milliseconds(99.9))
		}
		if got := result.PerSecond(); got < 190 || got > 200 {
			t.Errorf("%v requests/s, want 200 without the time of the last answer", got)
		}
	})
}

func TestSaturateSendsTheNextWhenTheLastIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := Saturate(t.Context(), 4, time.Second, func(context.Context) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		if result.Requests != 400 {
			t.Errorf("%d requests, want 4 clients of 100 each", result.Requests)
		}
	})
}

func TestErrorsAreCountedAndTheFirstIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		result := Offer(t.Context(), Offered{PerSecond: 10, Duration: time.Second, Workers: 1}, func(context.Context) error {
			switch n.Add(1) {
			case 3:
				return errors.New("third")
			case 5:
				return errors.New("fifth")
			}
			return nil
		})
		if result.Requests != 10 || result.Errors != 2 || result.Error == nil || result.Error.Error() != "third" {
			t.Errorf("%d requests, %d errors, the first %v; want 10, 2, third", result.Requests, result.Errors, result.Error)
		}
	})
}

func TestTheLoadEndsWhenThereIsNothingMoreToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		do := func(context.Context) error {
			time.Sleep(time.Millisecond)
			if n.Add(1) > 20 {
				return ErrNoMore
			}
			return nil
		}
		start := time.Now()
		if result := Saturate(t.Context(), 4, time.Minute, do); result.Requests != 20 || result.Errors != 0 {
			t.Errorf("%d requests, %d errors, want 20 without errors", result.Requests, result.Errors)
		}
		if result := Offer(t.Context(), Offered{PerSecond: 10, Duration: time.Minute, Workers: 4}, do); result.Requests != 0 {
			t.Errorf("%d requests, although there was nothing to do", result.Requests)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the loads ended after %s", took)
		}
	})
}
