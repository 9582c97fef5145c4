// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"
)

// giveUp ends a wait that would never end; it says nothing about how fast anything is.
const giveUp = time.Minute

// door is one way into a fleet: a path at a replica, for a user.
type door struct {
	// name is the replica that decides.
	name   string
	client *http.Client
	url    string
}

func newDoor(t testing.TB, name string, config *rest.Config, path string) door {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	return door{name: name, client: client, url: config.Host + path}
}

// ask reads once.
func (d door) ask(ctx context.Context) (answer, error) {
	return sendWith(ctx, d.client, http.MethodGet, d.url, nil, "")
}

// try reads once and notes when.
func (d door) try(ctx context.Context) (attempt, error) {
	began := time.Now()
	a, err := d.ask(ctx)
	return attempt{began: began, ended: time.Now(), code: a.Code}, err
}

// becomes returns when a read gives a code.
func (d door) becomes(ctx context.Context, code int) error {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for {
		a, err := d.try(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if a.code == code {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s still answers %d and not %d: %w", d.name, a.code, code, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// hammer reads all the time.
type hammer struct {
	door
	stopped context.CancelFunc
	done    sync.WaitGroup

	mu       sync.Mutex
	attempts []attempt
	err      error
	// seen is when the replica was known to have seen the end of what lets the requests in.
	seen time.Time
}

// hammerAt reads at a door until stop is called.
func hammerAt(t testing.TB, d door) *hammer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := &hammer{door: d, stopped: cancel}
	h.done.Go(func() {
		for ctx.Err() == nil {
			a, err := d.try(t.Context())
			h.mu.Lock()
			h.attempts, h.err = append(h.attempts, a), err
			h.mu.Unlock()
			if err != nil {
				return
			}
			time.Sleep(time.Millisecond) // leaves the machine some time for the servers
		}
	})
	t.Cleanup(func() { h.stop() })
	return h
}

func (h *hammer) stop() []attempt {
	h.stopped()
	h.done.Wait()
	return h.attempts
}

// hits returns when there were some more attempts that began after a moment.
func (h *hammer) hits(ctx context.Context, n int, after time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for {
		h.mu.Lock()
		count, err := 0, h.err
		for _, a := range h.attempts {
			if a.began.After(after) {
				count++
			}
		}
		h.mu.Unlock()
		if err != nil || count >= n {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// verdict is what a hammer saw of a revocation.
type verdict struct {
	// allowed are the attempts that were let in after the revocation was sent, lastAllowed is when the last of them began,
	// and refused when the first that was not got its answer.
	allowed              int
	lastAllowed, refused time.Time
}

// judge expects that attempts are let in until they are refused, and never again, and none that began after the
// server had seen why.
func judge(t testing.TB, name string, attempts []attempt, code int, sent, seen time.Time) verdict {
	t.Helper()
	var v verdict
	for _, a := range attempts {
		switch {
		case a.code == code:
			if v.refused.IsZero() {
				v.refused = a.ended
			}
		case a.code == http.StatusTooManyRequests: // a watch cache fills, or there are too many requests
		case a.code != http.StatusOK:
			t.Errorf("%s answered %d", name, a.code)
		case !v.refused.IsZero():
			t.Fatalf("%s let in a request after it had refused one", name)
		case a.began.After(seen):
			t.Fatalf("%s let in a request %s after it had seen the revocation", name, a.began.Sub(seen))
		case a.began.After(sent):
			v.allowed, v.lastAllowed = v.allowed+1, a.began
		}
	}
	if v.refused.IsZero() {
		t.Fatalf("%s never refused", name)
	}
	return v
}

// milliseconds is how tests print a time.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
