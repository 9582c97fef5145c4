// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// count is what became of a herd.
type count struct {
	// refused counts requests without a good answer, toldToWait answers 429 with Retry-After. Clients then come again.
	refused, askedToWait atomic.Int64
	// ended counts watches that ended early, lost gaps in those that did not.
	ended, lost, complete atomic.Int64
	// writesFailed counts attempts to create a ConfigMap, tokensRefused tokens that were not accepted.
	writesFailed, tokensRefused atomic.Int64
	took                        time.Duration

	mu sync.Mutex
	// why are the first reasons.
	why []string
}

func (c *count) note(counter *atomic.Int64, format string, args ...any) {
	counter.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.why) < 5 {
		c.why = append(c.why, fmt.Sprintf(format, args...))
	}
}

func (c *count) String() string {
	return fmt.Sprintf("watches: %d refused, %d throttled, %d ended, %d complete; %d events lost; %d writes failed; %d tokens refused; %.1f s %s",
		c.refused.Load(), c.askedToWait.Load(), c.ended.Load(), c.complete.Load(), c.lost.Load(), c.writesFailed.Load(), c.tokensRefused.Load(),
		c.took.Seconds(), strings.Join(c.why, "; "))
}

// expect checks that a herd lost nothing.
func (c *count) expect(t *testing.T, h herd) {
	t.Helper()
	assert.EqualValues(t, h.watches, c.complete.Load(), "%s", c)
	assert.Zero(t, c.lost.Load(), "%s", c)
	assert.Zero(t, c.writesFailed.Load(), "%s", c)
	assert.Zero(t, c.tokensRefused.Load(), "%s", c)
}

// expectNoWorse checks that a herd lost no more than another one, at kube-apiserver. Clients that are throttled are no loss.
func (c *count) expectNoWorse(t *testing.T, stock *count) {
	t.Helper()
	for _, one := range []struct {
		name         string
		is, atMostOf *atomic.Int64
	}{
		{"requests refused", &c.refused, &stock.refused}, {"watches ended", &c.ended, &stock.ended}, {"events lost", &c.lost, &stock.lost},
		{"writes failed", &c.writesFailed, &stock.writesFailed}, {"tokens refused", &c.tokensRefused, &stock.tokensRefused},
	} {
		assert.LessOrEqual(t, one.is.Load(), one.atMostOf.Load(), "%s: %s; kube-apiserver: %s", one.name, c, stock)
	}
}
