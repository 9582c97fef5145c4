// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"sync"
	"time"
)

const (
	// retryShare is the share of a retry that each request adds to the budget.
	retryShare = 0.2
	// minRetryRate is how many retries per second the budget gets besides. It serves backends with few requests.
	minRetryRate = 10
	// maxRetries limits the budget. One user can take half of it.
	maxRetries = 2000
	// firstRetries is the budget at the start.
	firstRetries = 200
)

// budget limits retries, so that they do not overload a backend in trouble. Users share it by the rule of package requestmemory: a user may
// take as much as is still free. So a user whose requests always need retries leaves half of the budget to others.
type budget struct {
	mu sync.Mutex
	// free is the number of retries left. It grows with each request and with time.
	free float64
	at   time.Time
	// taken has the retries that each user took and the budget has not regained, multiplied by 1/scale. sum is their total.
	taken map[string]float64
	sum   float64
	scale float64
}

func newBudget() *budget {
	return &budget{free: firstRetries, at: time.Now(), taken: map[string]float64{}, scale: 1}
}

// deposit adds the share of one request.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(retryShare)
}

// minScale is the smallest scale. Below it, floating-point numbers would lose precision.
const minScale = 1e-9

// add adds retries, and reduces what users have taken by the same amount, in proportion.
func (b *budget) add(retries float64) {
	b.free = min(b.free+retries, maxRetries)
	switch left := b.sum - retries; {
	case b.sum == 0:
	case left < 1: // next to nothing
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

// withdraw takes a retry for a user. It returns false if the budget is empty, or if the user has taken too many.
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
