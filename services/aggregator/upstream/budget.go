// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"sync"
	"time"
)

const (
	// retryShare is the part of a retry that each request adds to the budget.
	retryShare = 0.2
	// minRetryRate is how many retries each second adds, for backends with few requests.
	minRetryRate = 10
	// maxRetries limits the budget. One user can have half of it.
	maxRetries = 2000
	// firstRetries is the budget at the start.
	firstRetries = 200
)

// budget limits retries, so that they do not add to the load of a backend in trouble. All users share it by the rule of package shares: a user
// may have taken as much as is still free. So one who makes the aggregator retry all the time leaves half of the budget to others.
type budget struct {
	mu sync.Mutex
	// free is how many retries there are. It grows by requests and with time.
	free float64
	at   time.Time
	// taken is what users have taken and the budget has not got back, in parts of scale. sum is that of all.
	taken map[string]float64
	sum   float64
	scale float64
}

func newBudget() *budget {
	return &budget{free: firstRetries, at: time.Now(), taken: map[string]float64{}, scale: 1}
}

// deposit counts a request.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(retryShare)
}

// minScale is how small the scale may become, so that numbers keep their precision.
const minScale = 1e-9

// add adds retries. What users have taken shrinks by as much, each user's by the same part.
func (b *budget) add(retries float64) {
	b.free = min(b.free+retries, maxRetries)
	switch left := b.sum - retries; {
	case b.sum == 0:
	case left < 1: // as good as nothing
		clear(b.taken)
		b.sum, b.scale = 0, 1
	default:
		b.scale *= left / b.sum
		b.sum = left
		if b.scale < minScale {
			for user := range b.taken {
				b.taken[user] *= b.scale
			}
			b.scale = 1
		}
	}
}

// withdraw takes a retry of a user's request. It returns false if the budget has none, or the user has taken too many.
func (b *budget) withdraw(user string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.add(minRetryRate * now.Sub(b.at).Seconds())
	b.at = now
	if b.free < 1 || b.taken[user]*b.scale+1 > b.free {
		return false
	}
	b.free--
	b.taken[user] += 1 / b.scale
	b.sum++
	return true
}
