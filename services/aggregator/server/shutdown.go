// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/streaming/pkg/httpstream"
)

// shutdown tells handlers how far the server is with its graceful termination (k8s.io/apiserver/pkg/server), which has these
// steps: not ready; after half of --shutdown-delay-duration clients are asked to connect elsewhere; after all of it new
// requests are refused and watches end one after the other; when these and other requests are done tunnels end, and the server.
type shutdown struct {
	leaving, refusing context.Context
	leave, refuse     context.CancelFunc
	// drained ends when all requests but tunnels have.
	drained context.Context
	// grace is how long watches may take to end. If it is 0 they end with tunnels.
	grace time.Duration
	// watches counts those that go on.
	watches atomic.Int64
}

// newShutdown returns the shutdown of a server that waits for its watches for a grace. The channel closes when all requests
// are done.
func newShutdown(grace time.Duration, drained <-chan struct{}) *shutdown {
	s := &shutdown{grace: grace}
	s.leaving, s.leave = context.WithCancel(context.Background())
	s.refusing, s.refuse = context.WithCancel(context.Background())
	var drain context.CancelFunc
	s.drained, drain = context.WithCancel(context.Background())
	go func() {
		<-drained
		drain()
	}()
	return s
}

// begin goes through the steps up to the refusal of requests. The server refuses none before it returns, as what it does is a
// hook of its: so nobody is refused without being told to go elsewhere.
func (s *shutdown) begin(delay time.Duration) error {
	time.Sleep(delay / 2)
	s.leave()
	time.Sleep(delay - delay/2)
	s.refuse()
	return nil
}

// ShuttingDown implements request.ServerShutdownSignal.
func (s *shutdown) ShuttingDown() <-chan struct{} { return s.refusing.Done() }

// moveConnections has clients make a connection elsewhere for their next request, before it is refused here.
func (s *shutdown) moveConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if s.leaving.Err() != nil && !httpstream.IsUpgradeRequest(req) {
			// Over HTTP/2 it becomes a GOAWAY.
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, req)
	})
}

// errStopping is the cause of the end of a request that goes on for as long as the server runs.
var errStopping = errors.New("the server is shutting down")

// endLongRunning ends watches and tunnels, whose clients would keep the server waiting: their backend has no reason to end
// them.
func (s *shutdown) endLongRunning(next http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !longRunning(req, info) {
			next.ServeHTTP(w, req)
			return
		}
		ctx, cancel := context.WithCancelCause(req.Context())
		defer cancel(nil)
		end := func() { cancel(errStopping) }
		if info.Verb == "watch" && s.grace > 0 {
			s.watches.Add(1)
			defer s.watches.Add(-1)
			defer context.AfterFunc(s.refusing, func() {
				s.awaitTurn(ctx)
				end()
			})()
		} else {
			defer context.AfterFunc(s.drained, end)()
		}
		next.ServeHTTP(w, req.WithContext(ctx))
	})
}

// leastEnding is how many watches end in a second at least, as in kube-apiserver: clients that have to watch elsewhere are not
// to come all at once.
const leastEnding = 200

// awaitTurn waits until it is time for one of the watches to end.
func (s *shutdown) awaitTurn(watch context.Context) {
	window := min(s.grace, time.Duration(s.watches.Load())*time.Second/leastEnding)
	if window <= 0 {
		return
	}
	turn := time.NewTimer(rand.N(window))
	defer turn.Stop()
	select {
	case <-watch.Done():
	case <-turn.C:
	}
}
