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
	// maxRetries limits the budget.
	maxRetries = 1000
	// firstRetries is the budget at the start.
	firstRetries = 100
)

// budget limits retries, so that they do not add to the load of a backend in trouble.
type budget struct {
	mu      sync.Mutex
	retries float64
	at      time.Time
}

func newBudget() *budget {
	return &budget{retries: firstRetries, at: time.Now()}
}

// deposit counts a request.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retries = min(b.retries+retryShare, maxRetries)
}

// withdraw takes a retry. It returns false if the budget has none.
func (b *budget) withdraw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.retries = min(b.retries+minRetryRate*now.Sub(b.at).Seconds(), maxRetries)
	b.at = now
	if b.retries < 1 {
		return false
	}
	b.retries--
	return true
}
