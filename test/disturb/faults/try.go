// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// before is how long clients work before a fault, and calm how long no request may fail after it.
	before = time.Second
	calm   = 2 * time.Second
	// revokeAfter is when rights end, after the start of a fault.
	revokeAfter = 2 * time.Second
	// recoverWithin is how long a cluster may take to recover.
	recoverWithin = 90 * time.Second
	// lookInterval is the time between two looks at the replicas. Times in the table have this precision.
	lookInterval = 300 * time.Millisecond
)

// result is the result of one fault.
type result struct {
	Fault string `json:"fault"`
	Side  string `json:"side"`
	// LeftOut is why the fault was not tried, or empty.
	LeftOut  string           `json:"leftOut,omitempty"`
	Requests map[string]count `json:"requests,omitempty"`
	// Noticed is the time from the start until a replica was not ready or not used, or 0 if that did not happen.
	Noticed time.Duration `json:"noticed"`
	// FailedUntil is the time from the start until the last request failed.
	FailedUntil time.Duration `json:"failedUntil"`
	// Lasted is how long the fault lasted. Recovered is the time from its end until the cluster had recovered.
	Lasted       time.Duration `json:"lasted"`
	Recovered    time.Duration `json:"recovered"`
	NotRecovered string        `json:"notRecovered,omitempty"`
	// Lost has the acknowledged writes that are lost, and other errors in what clients received.
	Lost []string `json:"lost,omitempty"`
	// Stale is how long rights lasted after their end was acknowledged, and Bound the limit.
	Stale map[string]time.Duration `json:"stale,omitempty"`
	Bound map[string]time.Duration `json:"bound,omitempty"`
	// Restarts counts the processes that ended on their own.
	Restarts int      `json:"restarts"`
	Reasons  []string `json:"reasons,omitempty"`
	// Took is the duration of each phase.
	Took map[string]time.Duration `json:"took,omitempty"`
}

// phases are the phases of each fault, in order.
var phases = []string{"start", "before", "broken", "recovery", "search"}

// try tries one fault while clients work.
func (c *cluster) try(ctx context.Context, f fault, number int, lasts time.Duration) (r result, err error) {
	r = result{Fault: f.name, Side: c.side.name, Took: map[string]time.Duration{}}
	phase, since := 0, time.Now()
	next := func() { // ends a phase
		r.Took[phases[phase]] = time.Since(since)
		phase, since = phase+1, time.Now()
	}
	if err := framework.Poll(ctx, "all is well", c.wellness); err != nil {
		return r, err
	}
	if err := c.findLeader(ctx); err != nil {
		return r, err
	}
	l, err := c.startLoad(ctx, number, f.replaces == frontProxyCA)
	if err != nil {
		return r, fmt.Errorf("cannot start clients: %w", err)
	}
	rights, err := c.startRevocation(ctx, number, f.replaces)
	if err != nil {
		_, _, finishErr := l.finish(ctx)
		return r, errors.Join(fmt.Errorf("cannot give rights: %w", err), finishErr)
	}
	next()
	sleep(ctx, before)
	next()
	c.restarts = 0
	began := time.Now()
	looking := c.startLooking(ctx)
	var working sync.WaitGroup
	revoking, stopRevoking := context.WithCancel(ctx)
	working.Go(func() { sleep(revoking, revokeAfter); rights.revoke(revoking) })
	err = f.begin(ctx, c)
	sleep(ctx, lasts)
	mended := time.Now()
	err = errors.Join(err, f.end(context.WithoutCancel(ctx), c))
	if f.replaces != "" {
		err = errors.Join(err, rights.end(c.distrusted))
	}
	next()
	r.NotRecovered = c.recovered(ctx, l, rights, looking, mended)
	stopRevoking()
	working.Wait()
	var lastBad time.Time
	r.Noticed, lastBad = looking.stop(began)
	failedLast := l.failedLast()
	r.Lasted, r.Recovered = mended.Sub(began), max(0, lastBad.Sub(mended), failedLast.Sub(mended))
	r.FailedUntil = max(0, failedLast.Sub(began))
	r.Stale, r.Restarts, r.Reasons = rights.finish(), c.restarts, l.reasons()
	r.Bound = f.bounds(c.side, rights, mended)
	var finishErr error
	next()
	r.Requests, r.Lost, finishErr = l.finish(ctx)
	next()
	return r, errors.Join(err, finishErr, ctx.Err())
}

// sleep lets clients work for a while. It does not wait for an event.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// recovered waits until the cluster has recovered, and otherwise returns what is wrong.
func (c *cluster) recovered(ctx context.Context, l *load, rights *revocation, looking *looking, mended time.Time) string {
	for deadline := mended.Add(recoverWithin); ; sleep(ctx, lookInterval) {
		bad, since := looking.now()
		quiet := time.Since(l.failedLast())
		switch {
		case len(bad) == 0 && time.Since(since) > calm && quiet > calm && time.Since(mended) > calm && rights.over():
			return ""
		case ctx.Err() != nil:
			return ctx.Err().Error()
		case time.Now().Before(deadline):
		case len(bad) > 0:
			return strings.Join(bad, "; ")
		case quiet <= calm:
			return "requests fail"
		default:
			return "rights that ended are still in force"
		}
	}
}

// looking looks at the state of replicas.
type looking struct {
	cancel  context.CancelFunc
	working sync.WaitGroup

	mu sync.Mutex
	// first is when a problem was noticed first, last when one was seen last, and bad the current problems.
	first, last time.Time
	bad         []string
}

func (c *cluster) startLooking(ctx context.Context) *looking {
	ctx, cancel := context.WithCancel(ctx)
	l := &looking{cancel: cancel}
	l.working.Go(func() {
		for ; ctx.Err() == nil; sleep(ctx, lookInterval) {
			at := time.Now()
			bad, noticed := c.problems(ctx)
			if ctx.Err() != nil {
				return
			}
			l.mu.Lock()
			l.bad = bad
			if len(bad) > 0 {
				l.last = time.Now()
			}
			if noticed && l.first.IsZero() {
				l.first = at
			}
			l.mu.Unlock()
		}
	})
	return l
}

func (l *looking) now() (bad []string, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad, l.last
}

func (l *looking) stop(began time.Time) (noticed time.Duration, last time.Time) {
	l.cancel()
	l.working.Wait()
	if l.first.IsZero() {
		return 0, l.last
	}
	return max(l.first.Sub(began), time.Millisecond), l.last
}

func (c *cluster) wellness(ctx context.Context) error {
	if bad, _ := c.problems(ctx); len(bad) > 0 {
		return errors.New(strings.Join(bad, "; "))
	}
	return nil
}

// problems returns which replicas are not ready, and which replicas of backends an aggregator does not use. noticed is true if the cluster itself
// has noticed a problem: a replica reports that it is not ready, an aggregator does not use one, or the load balancer cannot reach an aggregator.
func (c *cluster) problems(ctx context.Context) (bad []string, noticed bool) {
	var asking sync.WaitGroup
	var mu sync.Mutex
	ask := func(what string, notices bool, question func(context.Context) error) {
		asking.Go(func() {
			if err := question(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, what+": "+err.Error())
				noticed = noticed || notices || errors.Is(err, errNotReady)
			}
		})
	}
	for _, name := range c.all() {
		switch {
		case slices.Contains(c.roles[etcd], name):
			ask(name, false, ok(c.direct, c.memberURL(name)+"/health"))
		case c.urls[name] != "":
			ask(name, true, ok(c.direct, c.urls[name]+"/readyz"))
			if !c.side.stock {
				ask(name, true, func(ctx context.Context) error { return c.usesAll(ctx, name) })
			}
		default:
			ask(name, false, ok(c.direct, "http://"+c.machine.hosts[name].address+":8080/readyz"))
		}
	}
	asking.Wait()
	slices.Sort(bad)
	return bad, noticed
}

// usesAll returns an error unless an aggregator uses all replicas of each backend.
func (c *cluster) usesAll(ctx context.Context, aggregator string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.urls[aggregator]+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := c.direct.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	serving, all := 0, fmt.Sprintf(" %d", c.side.replicas)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "tripod_backend_endpoints{") && strings.Contains(line, `state="serving"`) && strings.HasSuffix(line, all) {
			serving++
		}
	}
	if resp.StatusCode == http.StatusOK && serving < 2 {
		return errors.New("it does not use all replicas of a backend")
	}
	return nil
}
