// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBudget(t *testing.T) {
	// spend takes all there is, and returns how much it was.
	spend := func(b *budget) (n int) {
		for b.withdraw() {
			n++
		}
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		if n := spend(b); n != firstRetries {
			t.Errorf("there are %d at the beginning", n)
		}
		for range 1001 {
			b.deposit()
		}
		if n := spend(b); n != 200 {
			t.Errorf("there are %d after 1001 requests", n)
		}
		time.Sleep(5 * time.Second)
		if n := spend(b); n != 5*minRetryRate {
			t.Errorf("there are %d after 5 seconds", n)
		}
		time.Sleep(time.Hour)
		for range 1000 {
			b.deposit()
		}
		if n := spend(b); n != maxRetries {
			t.Errorf("there are %d at most", n)
		}
	})
}
