// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/attention"
	"github.com/tripod-k8s/tripod/base/hop/replicas"
	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const (
	// pingDelay is how long a probe may go unanswered before the aggregator pings the replica below HTTP.
	pingDelay = 250 * time.Millisecond
	// lastWord is how long the ping may still take after the probe has timed out. If the aggregator itself stood still, it finds the answer in
	// this time.
	lastWord = 250 * time.Millisecond
	// breakTimeout is how long after that a frozen replica may take to answer a ping. Then the aggregator closes its connections.
	breakTimeout = 2 * time.Second
)

// keepProbing probes a replica until the context ends or the replica is removed. A removed replica then finishes its requests.
func (b *Backend) keepProbing(ctx context.Context, e *endpoint) {
	pause, interval, doubted := b.checks.pause, b.checks.interval, false
	for was := unprobed; !e.isRemoved(); {
		sent := time.Now()
		found := e.probe(ctx, &b.checks)
		if ctx.Err() != nil {
			return
		}
		b.observe(e, found, sent)
		if found.frozen {
			b.awaitLife(ctx, e)
		}
		e.pool.Tidy()
		if doubted && found.condition == was {
			pause = min(2*pause, b.checks.maxPause)
		} else {
			pause = b.checks.pause
		}
		if found.condition == was {
			interval = min(2*interval, b.checks.maxInterval)
		} else {
			interval = b.checks.interval
		}
		was = found.condition
		for doubted = b.rest(ctx, e, pause, interval); !doubted && b.needsNoProbe(ctx, e, sent); {
			e.pool.Tidy()
			doubted = b.rest(ctx, e, 0, interval) // the last probe is longer ago than pause
		}
	}
	e.sharedWatches.retire()
	e.pool.Retire(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() == nil && b.endpoints[e.address] == nil {
		// No other endpoint has these series.
		e.metrics.delete()
	}
}

func (e *endpoint) isRemoved() bool {
	select {
	case <-e.removed:
		return true
	default:
		return false
	}
}

// needsNoProbe reports whether the feed of a serving replica says enough. The feed has another connection than requests, so a request in
// flight has the replica probed, and so does time. last is when the last probe was sent.
func (b *Backend) needsNoProbe(ctx context.Context, e *endpoint, last time.Time) bool {
	return ctx.Err() == nil && !e.isRemoved() && b.isServing(e) && time.Since(last) < b.checks.feedInterval && e.servingFor() > 0 &&
		e.load.InFlight(balance.Short) == 0
}

func (b *Backend) isServing(e *endpoint) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.health.rank() == rankServing
}

// rest waits for next, but only for least if something asks for a probe (doubted).
func (b *Backend) rest(ctx context.Context, e *endpoint, least, next time.Duration) (doubted bool) {
	if b.isServing(e) {
		next = b.checks.servingInterval
		if left := e.servingFor(); left > 0 && (left < next || e.quiet.Load()) {
			next = left
		}
	}
	ends := time.Now().Add(next)
	interval := time.NewTimer(next)
	defer interval.Stop()
	if !wait(ctx, least) {
		return false
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-e.removed:
			return false
		case <-e.doubted:
			return true
		case <-e.disturbed:
			if sooner := time.Now().Add(b.checks.servingInterval); sooner.Before(ends) {
				ends = sooner
				interval.Reset(b.checks.servingInterval)
			}
		case <-interval.C:
			return false
		}
	}
}

// probe asks the replica whether it is ready. If no answer comes soon, it also pings the replica.
func (e *endpoint) probe(ctx context.Context, c *checks) finding {
	var pinging sync.WaitGroup
	defer pinging.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := make(chan struct{})
	pinging.Go(func() {
		if wait(ctx, pingDelay) && e.isAlive(ctx) {
			close(alive)
		}
	})
	asking, stop := attention.WithTimeout(ctx, c.timeout)
	defer stop()
	life := e.watchLife(c.timeout / 2)
	defer life.stop()
	found, err := e.ask(asking, c, connections.Multiplexed)
	if err != nil && connections.ReasonOf(err) != connections.Unreachable && asking.Err() == nil {
		// It may have failed because the connection was old, or because the replica closed it for a client's request.
		found, err = e.ask(asking, c, connections.Probes)
	}
	if err == nil {
		return found
	}
	if asking.Err() == nil && !connections.Silent(err) {
		return finding{condition: refusing, message: err.Error()}
	}
	found = finding{condition: silent, message: fmt.Sprintf("no answer within %s", c.timeout)}
	select {
	case <-alive:
	case <-ctx.Done():
	case <-time.After(lastWord):
		found.frozen = true
	}
	if life.seen() {
		return finding{condition: busy, message: found.message + ", but signs of life"}
	}
	return found
}

// life looks for signs of life of a replica, of any kind, in the last part of a probe. A replica that froze during the probe showed some
// before.
type life struct {
	endpoint *endpoint
	timer    *time.Timer
	// signs is how many there had been at the time since.
	signs uint64
	since time.Time
	begun atomic.Bool
}

// watchLife looks from after a time on.
func (e *endpoint) watchLife(after time.Duration) *life {
	l := &life{endpoint: e}
	l.timer = time.AfterFunc(after, func() {
		l.signs, l.since = e.signs(), time.Now()
		l.begun.Store(true)
	})
	return l
}

func (l *life) stop() { l.timer.Stop() }

func (l *life) seen() bool {
	return !l.begun.Load() || l.endpoint.signs() != l.signs || l.endpoint.pool.ReceivedSince(l.since)
}

// signs is a number that grows with signs of life: bytes of any connection for requests, and messages of the feed.
func (e *endpoint) signs() uint64 { return e.pool.Received() + e.feedMessages.Load() }

// wait waits, if d is positive. It returns false if the context ends first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (e *endpoint) ask(ctx context.Context, c *checks, wire connections.Wire) (finding, error) {
	err := c.Ask(ctx, roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		req.Header.Set("User-Agent", "tripod-aggregator/probe")
		return e.pool.RoundTrip(req, wire)
	}), e.address)
	var unreadyErr *replicas.UnreadyError
	if errors.As(err, &unreadyErr) {
		return finding{condition: unready, message: unreadyErr.Error()}, nil
	}
	return finding{condition: ready}, err
}

// isAlive reports whether the replica shows a sign of life before the context ends. A replica that answers a ping but no request waits for
// something itself. One that rejects connections may be about to stop.
func (e *endpoint) isAlive(ctx context.Context) bool {
	err := e.pool.Answers(ctx)
	return err == nil || (connections.ReasonOf(err) == connections.Unreachable && !connections.Silent(err))
}

// awaitLife waits for a sign of life of a frozen replica, and then has it probed. After breakTimeout it closes the connections that the
// kernel calls lost, and all others if another replica serves, so that the remaining requests end. Otherwise they wait: nothing would be
// better for them.
func (b *Backend) awaitLife(ctx context.Context, e *endpoint) {
	waiting, cancel := attention.WithTimeout(ctx, breakTimeout)
	defer cancel()
	if e.isAlive(waiting) {
		signal(e.doubted)
		return
	}
	if ctx.Err() != nil {
		return
	}
	e.pool.BreakLost()
	if b.Spare(e.address) {
		klog.InfoS("Giving up the connections of a replica that shows no sign of life", "replica", e.address)
		e.pool.Break()
	}
}

// observe stores the result of a probe. A frozen replica first leaves the roster, if another one serves. Then the requests that wait for it
// end, so that none chooses it again (settle).
func (b *Backend) observe(e *endpoint, found finding, sent time.Time) {
	if !found.frozen {
		e.waiting.setFrozen(false)
	}
	if found.condition == busy {
		e.metrics.lateProbes.Inc()
	}
	b.update(e, found.condition.String(), func(h *health) { h.observe(found, sent, time.Now()) })
}

// settle ends the requests that wait for frozen replicas, if another one serves. The caller holds the lock.
func (b *Backend) settle() {
	r := b.roster.Load()
	for _, e := range b.endpoints {
		e.waiting.setFrozen(e.health.rank() == rankFrozen && r.serves(e.address))
	}
}

// doubt ejects a replica because a request did not get through. A good probe ends that.
func (b *Backend) doubt(e *endpoint, reason connections.Reason) {
	if b.update(e, reason.String(), func(h *health) { h.eject(time.Now(), reason == connections.Unreachable) }) {
		signal(e.doubted)
		// A replica at another address may have replaced it.
		if b.set != nil {
			b.set.LookUpNow()
		}
	}
}
