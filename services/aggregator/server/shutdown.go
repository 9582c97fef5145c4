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

	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// shutdown has the phases of the server's graceful termination for handlers (k8s.io/apiserver/pkg/server), which has these
// steps:
//
//   - it is not ready;
//   - leaving, after half of --shutdown-delay-duration: clients are asked to make another connection for their next request,
//     which a balancer makes elsewhere, and watches end one after the other;
//   - refusing, after the rest of that and when these watches have ended: new requests are refused, and watches end that
//     began meanwhile;
//   - drained, when all requests are done: tunnels end, and the server.
type shutdown struct {
	leaving, refusing, drained *stage
	// grace is how long watches may take to end, each time. If it is 0 they end with tunnels.
	grace time.Duration
	// watches counts those that go on.
	watches atomic.Int64
	// routed ends watches of a group-version that goes to another backend.
	routed *routedWatches
}

// stage is one of the steps.
type stage struct {
	context.Context
	reach context.CancelFunc
	// span is the time over which watches end that end from then on. It is set before the stage is reached.
	span time.Duration
}

func newStage() *stage {
	ctx, reach := context.WithCancel(context.Background())
	return &stage{Context: ctx, reach: reach}
}

// newShutdown returns the shutdown of a server that waits for its watches for a grace. The channel closes when all requests
// are done.
func newShutdown(grace time.Duration, drained <-chan struct{}) *shutdown {
	s := &shutdown{grace: grace, leaving: newStage(), refusing: newStage(), drained: newStage()}
	go func() {
		<-drained
		s.drained.reach()
	}()
	return s
}

// begin goes through the steps up to the refusal of requests. The server refuses none before it returns, as what it does is a
// hook of its: so each refused client was asked before to go elsewhere.
func (s *shutdown) begin(delay time.Duration) {
	time.Sleep(delay / 2)
	s.endWatchesFrom(s.leaving)
	time.Sleep(max(delay-delay/2, s.leaving.span))
	s.endWatchesFrom(s.refusing)
}

// leastEnding is how many watches end in a second at least, as in kube-apiserver: clients that have to watch elsewhere are not
// to come all at once.
const leastEnding = 200

func (s *shutdown) endWatchesFrom(next *stage) {
	next.span = min(s.grace, time.Duration(s.watches.Load())*time.Second/leastEnding)
	next.reach()
}

// ShuttingDown implements request.ServerShutdownSignal.
func (s *shutdown) ShuttingDown() <-chan struct{} { return s.refusing.Done() }

// moveConnections has clients make a connection elsewhere for their next request, before it is refused here.
func (s *shutdown) moveConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if s.leaving.Err() != nil && !routing.Of(req).Tunnel {
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
func (s *shutdown) endLongRunning(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		class := routing.Of(req)
		if !class.LongRunning {
			next.ServeHTTP(w, req)
			return
		}
		ctx, cancel := context.WithCancelCause(req.Context())
		defer cancel(nil)
		end := func() { cancel(errStopping) }
		finish := end
		if class.Kind == routing.Watch && s.grace > 0 {
			s.watches.Add(1)
			defer s.watches.Add(-1)
			from := s.leaving
			if from.Err() != nil {
				// It came by a connection from before, or has no other server. It gets a connection that it will not use
				// again.
				from = s.refusing
			}
			events := &wholeEvents{ResponseWriter: w, end: end}
			w = responsewriter.WrapForHTTP1Or2(events)
			finish = events.finish
			defer context.AfterFunc(from, func() {
				from.awaitTurn(ctx)
				events.finish()
			})()
		} else {
			defer context.AfterFunc(s.drained, end)()
		}
		defer s.routed.follow(class, finish)()
		next.ServeHTTP(w, req.WithContext(ctx))
	})
}

// awaitTurn waits until it is time for one of the watches to end.
func (s *stage) awaitTurn(watch context.Context) {
	if s.span <= 0 {
		return
	}
	turn := time.NewTimer(rand.N(s.span))
	defer turn.Stop()
	select {
	case <-watch.Done():
	case <-turn.C:
	}
}
