// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	genericfilters "k8s.io/apiserver/pkg/server/filters"
)

// Paths of requests of three kinds.
const (
	read   = "/api/v1/namespaces/a/pods/b"
	watch  = "/api/v1/pods?watch=1"
	tunnel = "/api/v1/namespaces/a/pods/b/exec"
)

// untilEnd serves until the request is ended, and notes when and why that was.
func untilEnd(ended chan<- error) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		<-req.Context().Done()
		ended <- context.Cause(req.Context())
	})
}

func TestShutdownGoesByItsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drained := make(chan struct{})
		s := newShutdown(10*time.Second, drained)
		handler := s.moveConnections(genericfilters.WithRetryAfter(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
		}), s.ShuttingDown()))
		answer := func() *http.Response {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, read, nil))
			return w.Result()
		}
		longRunning := func(url string) <-chan error {
			ended := make(chan error, 1)
			go s.endLongRunning(untilEnd(ended)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, url, nil))
			synctest.Wait()
			return ended
		}
		tunnelled, old := longRunning(tunnel), longRunning(watch)

		go s.begin(time.Second)
		var young <-chan error
		for _, step := range []struct {
			name, connection     string
			at                   time.Duration
			code                 int
			oldEnded, youngEnded bool
		}{
			{name: "at first it serves", at: 400 * time.Millisecond, code: http.StatusOK},
			{name: "then it moves clients", at: 600 * time.Millisecond, code: http.StatusOK, connection: "close", oldEnded: true},
			{name: "which takes a while", at: 900 * time.Millisecond, code: http.StatusOK, connection: "close", oldEnded: true},
			{name: "then it refuses", at: 1100 * time.Millisecond, code: http.StatusTooManyRequests, connection: "close", oldEnded: true, youngEnded: true},
		} {
			time.Sleep(step.at - time.Since(begin))
			synctest.Wait()
			got := answer()
			if got.StatusCode != step.code || got.Header.Get("Connection") != step.connection {
				t.Errorf("%s: %s, Connection: %q", step.name, got.Status, got.Header.Get("Connection"))
			}
			if len(old) > 0 != step.oldEnded || len(young) > 0 != step.youngEnded || len(tunnelled) > 0 {
				t.Errorf("%s: ended are %d old watches, %d young ones, %d tunnels", step.name, len(old), len(young), len(tunnelled))
			}
			if young == nil && step.oldEnded {
				young = longRunning(watch)
			}
		}
		close(drained)
		for _, ended := range []<-chan error{old, young, tunnelled} {
			assert.ErrorIs(t, <-ended, errStopping, "the cause of the end")
		}
	})
}

// begin is when the bubble of a test begins, says testing/synctest.
var begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestWatchesEndSpreadOverTheGrace(t *testing.T) {
	const (
		grace   = 10 * time.Second
		watches = 4000
	)
	synctest.Test(t, func(t *testing.T) {
		drained := make(chan struct{})
		defer close(drained)
		s := newShutdown(grace, drained)
		var mu sync.Mutex
		bySecond := map[int]int{}
		var left time.Time
		var serving sync.WaitGroup
		handler := s.endLongRunning(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			<-req.Context().Done()
			mu.Lock()
			defer mu.Unlock()
			bySecond[int(time.Since(left)/time.Second)]++
		}))
		for range watches {
			serving.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, watch, nil)) })
		}
		synctest.Wait()
		left = time.Now()
		refused := make(chan struct{})
		go func() {
			defer close(refused)
			s.begin(0)
		}()
		serving.Wait()
		select {
		case <-refused:
			t.Error("requests were refused before all watches had moved")
		default:
		}
		<-refused
		for second := range int(grace / time.Second) {
			if n := bySecond[second]; n < watches/20 || n > watches/5 {
				t.Errorf("%d of %d watches ended in second %d", n, watches, second)
			}
		}
		assert.Len(t, bySecond, int(grace/time.Second), "watches ended in %d seconds", len(bySecond))
	})
}

func TestFewWatchesEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drained := make(chan struct{})
		defer close(drained)
		s := newShutdown(10*time.Second, drained)
		ended := make(chan error)
		go s.endLongRunning(untilEnd(ended)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, watch, nil))
		synctest.Wait()
		before := time.Now()
		s.endWatchesFrom(s.leaving)
		assert.ErrorIs(t, <-ended, errStopping)
		if took := time.Since(before); took > time.Second/leastEnding {
			t.Errorf("it took %s", took)
		}
	})
}

func TestWithoutAGraceWatchesEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drained := make(chan struct{})
		s := newShutdown(0, drained)
		ended := make(chan error, 1)
		go s.endLongRunning(untilEnd(ended)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, watch, nil))
		s.begin(time.Second)
		synctest.Wait()
		assert.Empty(t, ended, "the watch ended before other requests")
		close(drained)
		assert.ErrorIs(t, <-ended, errStopping)
	})
}
