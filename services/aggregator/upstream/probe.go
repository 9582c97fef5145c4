// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/replicas"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const (
	// pingDelay is how long a probe is unanswered before the replica is asked below HTTP whether it is alive at all.
	pingDelay = 250 * time.Millisecond
	// lastWord is how long that may take after the probe was given up. An aggregator that stood still itself finds the answer meanwhile.
	lastWord = 250 * time.Millisecond
	// breakTimeout is how long after that a replica has to show a sign of life before its connections are given up.
	breakTimeout = 2 * time.Second
)

// keepProbing probes a replica until the context ends or the replica is removed. It then waits until the replica has finished its requests.
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
			e.awaitLife(ctx)
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
		doubted = b.rest(ctx, e, pause, interval)
	}
	e.pool.Retire(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() == nil && b.endpoints[e.address] == nil {
		// Nobody else counts there.
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

// rest waits until the next probe is due, which is not before the end of a pause. It reports whether it is because of a doubt.
func (b *Backend) rest(ctx context.Context, e *endpoint, least, next time.Duration) (doubted bool) {
	b.mu.Lock()
	if e.health.rank() == rankServing {
		next = b.checks.servingInterval
	}
	b.mu.Unlock()
	pause := time.NewTimer(least)
	defer pause.Stop()
	interval := time.NewTimer(next)
	defer interval.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-pause.C:
	}
	select {
	case <-ctx.Done():
	case <-e.removed:
	case <-e.doubted:
		return true
	case <-interval.C:
	}
	return false
}

// probe asks the replica whether it is ready, and if it does not answer soon, whether it is alive.
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
	asking, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	found, err := e.ask(asking, c)
	if err != nil && connections.ReasonOf(err) != connections.Unreachable && asking.Err() == nil {
		// The connection may have been an old one.
		found, err = e.ask(asking, c)
	}
	if err == nil {
		return found
	}
	if !connections.Silent(err) {
		return finding{condition: refusing, message: err.Error()}
	}
	found = finding{condition: silent, message: fmt.Sprintf("no answer within %s", c.timeout)}
	select {
	case <-alive:
	case <-ctx.Done():
	case <-time.After(lastWord):
		found.frozen = true
	}
	return found
}

// wait reports whether the context lasts so long.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// roundTripper sends probes.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (e *endpoint) ask(ctx context.Context, c *checks) (finding, error) {
	err := c.Ask(ctx, roundTripper(func(req *http.Request) (*http.Response, error) {
		req.Header.Set("User-Agent", "tripod-aggregator/probe")
		return e.pool.RoundTrip(req, connections.Multiplexed)
	}), e.address)
	var says *replicas.UnreadyError
	if errors.As(err, &says) {
		return finding{condition: unready, message: says.Error()}, nil
	}
	return finding{condition: ready}, err
}

// isAlive reports whether the replica shows a sign of life before the context ends. One that answers below HTTP only waits for something
// itself, and one that takes no new connections may be about to stop.
func (e *endpoint) isAlive(ctx context.Context) bool {
	err := e.pool.Answers(ctx)
	return err == nil || (connections.ReasonOf(err) == connections.Unreachable && !connections.Silent(err))
}

// awaitLife waits until a frozen replica shows a sign of life, and has it probed then. If there is none for too long, it breaks the connections of
// the replica, so that what is left on them ends.
func (e *endpoint) awaitLife(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, breakTimeout)
	defer cancel()
	if e.isAlive(waiting) {
		signal(e.doubted)
	} else if ctx.Err() == nil {
		klog.InfoS("Giving up the connections of a replica that shows no sign of life", "replica", e.address)
		e.pool.Break()
	}
}

// observe takes over what a probe found. Once nobody waits for a frozen replica, no request chooses it any more.
func (b *Backend) observe(e *endpoint, found finding, sent time.Time) {
	if !found.frozen {
		e.waiting.setFrozen(false)
	}
	b.update(e, found.condition.String(), func(h *health) { h.observe(found, sent, time.Now()) })
	if found.frozen {
		e.waiting.setFrozen(true)
	}
}

// doubt takes a replica out because a request did not get through to it, until a probe finds it well.
func (b *Backend) doubt(e *endpoint, reason connections.Reason) {
	if b.update(e, reason.String(), func(h *health) { h.eject(time.Now(), reason == connections.Unreachable) }) {
		signal(e.doubted)
		// It may have been replaced by one at another address.
		if b.set != nil {
			b.set.LookUpNow()
		}
	}
}
