// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/attention"
	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/hop/watches"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const (
	// openTimeout is how long watches wait for a session before they go on without one. Each of them is then more work for a replica, which
	// may be busy already.
	openTimeout = 10 * time.Second
	// linger is how long a session without watches stays open.
	linger = time.Minute
)

// sharedWatches has the session in which the watches at a replica share events (package watches).
type sharedWatches struct {
	pool    *connections.Pool
	metrics *endpointMetrics

	mu sync.Mutex
	// offered is set while the replica is known to share.
	offered bool
	// current is the session that watches join. It is nil if there is none.
	current *session
	// opening is closed when an attempt to open a session has ended. It is nil if there is none.
	opening chan struct{}
	retired bool
}

// session is an open session.
type session struct {
	*watches.Receiver
	name string
	// idle ends the session after linger.
	idle *time.Timer
}

// sharedWatch is a watch that offers to share, or that is to join a session.
type sharedWatch struct {
	of *sharedWatches
	// session and body are nil if it only offers.
	session *session
	body    *watches.Body
}

// join changes the headers of a watch, so that it shares with others, if it may. The result may be nil.
func (s *sharedWatches) join(out *http.Request, wire connections.Wire) *sharedWatch {
	if s == nil || wire != connections.Multiplexed || out.Method != http.MethodGet || routing.Of(out).Kind != routing.Watch {
		return nil
	}
	out.Header = maps.Clone(out.Header)
	if current := s.session(out.Context()); current != nil {
		if body := current.Watch(out.RemoteAddr); body != nil {
			body.Join(out.Header, current.name)
			return &sharedWatch{s, current, body}
		}
	}
	watches.Offer(out.Header)
	return &sharedWatch{of: s}
}

// cancel is called if the watch got no answer.
func (w *sharedWatch) cancel() {
	if w != nil && w.body != nil {
		w.body.Cancel()
	}
}

// begin is called with the answer to the watch.
func (w *sharedWatch) begin(ctx context.Context, resp *http.Response) {
	if w == nil {
		return
	}
	joined := w.body != nil && w.body.Begin(ctx, resp, w.session.name)
	if !joined && watches.IsOffered(resp) {
		w.of.offer(w.session)
	}
	delete(resp.Header, envelope.WatchesHeader)
}

// session returns the session that watches join now. It waits for one that is being opened.
func (s *sharedWatches) session(ctx context.Context) *session {
	s.mu.Lock()
	current, opening := s.current, s.opening
	if current == nil && opening == nil && s.offered && !s.retired {
		opening = make(chan struct{})
		s.opening = opening
		go s.open(opening)
	}
	s.mu.Unlock()
	if current != nil || opening == nil {
		return current
	}
	select {
	case <-opening:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// offer notes that the replica can share. A watch could not join the session stale, which may be nil: the replica does not know it, or not
// from a connection with the certificate that the aggregator has now.
func (s *sharedWatches) offer(stale *session) {
	s.mu.Lock()
	s.offered = true
	if s.current == stale {
		s.current = nil
	}
	s.mu.Unlock()
	if stale != nil {
		stale.idle.Reset(0)
	}
}

// open opens a session, and keeps it until it ends.
func (s *sharedWatches) open(opening chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	credits, earned := io.Pipe()
	defer credits.Close() //nolint:errcheck // returns none
	req := watches.NewRequest(credits).WithContext(ctx)
	req.URL.Scheme, req.URL.Host = "https", "replica"
	trust.SpeakAsAggregator(req)
	late := attention.AfterFunc(openTimeout, func() time.Duration { cancel(); return 0 })
	resp, err := s.pool.RoundTrip(req, connections.Multiplexed)
	late.Stop()
	var opened *session
	if err == nil {
		defer resp.Body.Close() //nolint:errcheck // the rest is not read
		opened, err = s.opened(resp)
	}
	s.mu.Lock()
	s.opening, s.current = nil, opened
	s.offered = err == nil
	retired := s.retired
	s.mu.Unlock()
	close(opening)
	if opened != nil && retired {
		opened.idle.Reset(0)
	}
	if err != nil {
		klog.V(2).InfoS("Watches share no events", "backend", s.metrics.backend, "replica", s.metrics.endpoint, "err", err)
		return
	}
	defer context.AfterFunc(ctx, func() { _ = earned.Close() })()
	s.run(opened, resp.Body, earned, cancel)
}

func (s *sharedWatches) opened(resp *http.Response) (*session, error) {
	name, err := watches.NameOf(resp)
	if err != nil {
		return nil, err
	}
	opened := &session{name: name}
	opened.idle = time.AfterFunc(linger, func() { s.closeIfIdle(opened) })
	opened.Receiver = watches.NewReceiver(watches.Config{
		Carried:   func(bytes int) { s.metrics.carried.Add(float64(bytes)) },
		Delivered: func(bytes int) { s.metrics.delivered.Add(float64(bytes)) },
		Idle:      func() { opened.idle.Reset(s.lingers(opened)) },
	})
	return opened, nil
}

// run serves a session until it ends.
func (s *sharedWatches) run(opened *session, frames io.Reader, credits *io.PipeWriter, cancel func()) {
	s.metrics.session(1)
	var sending sync.WaitGroup
	sending.Go(func() {
		defer cancel()
		_ = opened.SendCredits(credits) // it fails when the session has ended
	})
	err := opened.Receive(frames)
	s.mu.Lock()
	if s.current == opened {
		s.current = nil
	}
	s.mu.Unlock()
	opened.idle.Stop()
	opened.Close()
	_ = credits.Close() // returns none
	sending.Wait()
	s.metrics.session(-1)
	klog.V(2).InfoS("A session for watches has ended", "backend", s.metrics.backend, "replica", s.metrics.endpoint, "err", err)
}

// lingers returns how long a session without watches stays open.
func (s *sharedWatches) lingers(idle *session) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired || s.current != idle {
		return 0
	}
	return linger
}

// closeIfIdle ends a session that has no watches.
func (s *sharedWatches) closeIfIdle(idle *session) {
	if !idle.CloseIfIdle() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == idle {
		s.current = nil
	}
}

// retire ends the session when its watches have ended. There will be no other one.
func (s *sharedWatches) retire() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.retired = true
	current := s.current
	s.mu.Unlock()
	if current != nil {
		current.idle.Reset(0)
	}
}
