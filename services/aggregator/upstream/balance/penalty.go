// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// penaltyHalfLife is the time in which a penalty falls by half.
	penaltyHalfLife = time.Second
	// maxPenalty is the largest penalty. Even with it an endpoint gets a request now and then, which may show that it has recovered.
	maxPenalty = 16
	// A penalty below negligiblePenalty becomes zero.
	negligiblePenalty = 0.05
)

// penalty is a count of failures that decays with time.
type penalty struct {
	// some is false while the penalty is zero, which is nearly always.
	some atomic.Bool

	mu    sync.Mutex
	value float64
	at    time.Time
}

func (p *penalty) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decay()
	p.value = min(p.value+1, maxPenalty)
	p.some.Store(true)
}

func (p *penalty) now() float64 {
	if !p.some.Load() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decay()
	if p.value < negligiblePenalty {
		p.value = 0
		p.some.Store(false)
	}
	return p.value
}

func (p *penalty) decay() {
	now := time.Now()
	p.value *= math.Exp2(-float64(now.Sub(p.at)) / float64(penaltyHalfLife))
	p.at = now
}
