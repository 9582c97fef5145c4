// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// spend has a user take all retries that it can, and returns their number.
func spend(b *budget, user string) (n int) {
	for b.withdraw(user) {
		n++
	}
	return n
}

// spendAll has many users take all retries.
func spendAll(b *budget, round string) (n int) {
	for i := range 10_000 {
		n += spend(b, fmt.Sprint(round, i))
	}
	return n
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		if n := spendAll(b, "a"); n != firstRetries {
			t.Errorf("there are %d at the beginning", n)
		}
		for range 1001 {
			b.deposit()
		}
		if n := spendAll(b, "b"); n != 200 {
			t.Errorf("there are %d after 1001 requests", n)
		}
		time.Sleep(5 * time.Second)
		if n := spendAll(b, "c"); n != 5*minRetryRate {
			t.Errorf("there are %d after 5 seconds", n)
		}
		time.Sleep(time.Hour)
		for range 1000 {
			b.deposit()
		}
		if n := spendAll(b, "d"); n != maxRetries {
			t.Errorf("there are %d at most", n)
		}
	})
}

func TestAUserLeavesRetriesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		for i, want := range []int{firstRetries / 2, firstRetries / 4, firstRetries / 8} {
			if n := spend(b, fmt.Sprint(i)); n != want {
				t.Errorf("user %d gets %d retries, want %d", i, n, want)
			}
		}
		// The first user continues for a minute, with as many requests as retries.
		for range 60 * 100 {
			time.Sleep(10 * time.Millisecond)
			b.deposit()
			spend(b, "0")
		}
		if n := spend(b, "somebody else"); n < firstRetries/4 {
			t.Errorf("then there are %d for somebody else", n)
		}
	})
}

func TestTheBudgetForgetsUsersWhoHaveGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		spendAll(b, "a")
		time.Sleep(time.Hour)
		if spend(b, "b"); len(b.taken) != 1 {
			t.Errorf("it knows %d users", len(b.taken))
		}
	})
}
