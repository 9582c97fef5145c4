// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// answerTimeout is how long a replica that was found silent has to show a sign of life before its connections are given up.
const answerTimeout = 2 * time.Second

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
		if found.condition == silent {
			frozen := e.isFrozen(ctx)
			b.update(e, silent.String(), func(h *health) { h.frozen = frozen })
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

// probe asks the replica whether it is ready.
func (e *endpoint) probe(ctx context.Context, c *checks) finding {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found, err := e.ask(ctx, c)
	if err != nil && connections.ReasonOf(err) != connections.Unreachable && ctx.Err() == nil {
		// The connection may have been an old one.
		found, err = e.ask(ctx, c)
	}
	switch {
	case err == nil:
		return found
	case connections.Silent(err):
		return finding{silent, fmt.Sprintf("no answer within %s", c.timeout)}
	}
	return finding{refusing, err.Error()}
}

func (e *endpoint) ask(ctx context.Context, c *checks) (finding, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+e.address+c.path, nil)
	if err != nil {
		return finding{}, err
	}
	req.Header.Set("User-Agent", "tripod-aggregator/probe")
	c.sign(req)
	resp, err := e.pool.RoundTrip(req, connections.Multiplexed)
	if err != nil {
		return finding{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost with an unread probe
	if !c.isWell(resp.StatusCode) {
		return finding{unready, c.path + " answers " + resp.Status}, nil
	}
	// Read, so that the request ends well.
	if _, err := io.Copy(io.Discard, resp.Body); err != nil && !errors.Is(err, io.EOF) {
		return finding{}, err
	}
	return finding{condition: ready}, nil
}

// isFrozen reports whether a silent replica shows no sign of life. If so, its connections are broken, so that requests on them do not wait
// for it. One that answers below HTTP only waits for something itself, and one that takes no new connections may be about to stop.
func (e *endpoint) isFrozen(ctx context.Context) bool {
	waiting, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := e.pool.Answers(waiting)
	refused := connections.ReasonOf(err) == connections.Unreachable && !connections.Silent(err)
	if err == nil || refused || ctx.Err() != nil {
		return false
	}
	klog.InfoS("Giving up the connections of a replica that shows no sign of life", "replica", e.address)
	e.pool.Break()
	return true
}

// observe takes over what a probe found.
func (b *Backend) observe(e *endpoint, found finding, sent time.Time) {
	b.update(e, found.condition.String(), func(h *health) { h.observe(found, sent, time.Now()) })
}

// doubt takes a replica out because a request did not get through to it, until a probe finds it well.
func (b *Backend) doubt(e *endpoint, reason connections.Reason) {
	if b.update(e, reason.String(), func(h *health) { h.eject(time.Now(), reason == connections.Unreachable) }) {
		signal(e.doubted)
		// It may have been replaced by one at another address.
		signal(b.resolveNow)
	}
}
