// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
)

// answering returns the source of a cluster that answers to questions about metrics.
func answering(t *testing.T, answer http.HandlerFunc) *Aggregator {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := searchclient.New(&rest.Config{Host: server.URL, BearerToken: "token-of-ann"})
	require.NoError(t, err)
	return NewAggregator(client)
}

const smallView = `# TYPE tripod_backend_endpoint_state gauge
tripod_backend_endpoint_state{backend="core",endpoint="192.0.2.1:6443",state="serving"} 1
tripod_backend_endpoint_state{backend="core",endpoint="192.0.2.2:6443",state="ejected"} 1
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79596322327e+09
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1.64
`

func TestAClusterIsTheViewOfOneAggregator(t *testing.T) {
	t.Parallel()
	source := answering(t, func(w http.ResponseWriter, req *http.Request) {
		assert.Equal(t, "/metrics", req.URL.Path)
		assert.Equal(t, "Bearer token-of-ann", req.Header.Get("Authorization"))
		assert.Contains(t, req.URL.Query()["name[]"], "tripod_backend_endpoint_state", "only what is needed")
		io.WriteString(w, smallView) //nolint:errcheck // the test ends
		for n := range maxSeen {     // of an outsider, whose names come first
			fmt.Fprintf(w, "tripod_backend_endpoint_state{backend=\"a-v1\",endpoint=\"192.0.2.3:%d\",state=\"serving\"} 1\n", n)
		}
	})
	p := next(t, New(source), nil)
	assert.Equal(t, time.Date(2026, 11, 29, 14, 40, 23, 270e6, time.UTC), p.View.Started)
	assert.False(t, p.View.Others)
	assert.Equal(t, 2, p.LeftOff)
	assert.Equal(t, []string{"aggregator", "core", "a-v1"}, []string{p.Services[0].Name, p.Services[1].Name, p.Services[2].Name})
	assert.Equal(t, Ready, replicaIn(t, p, "aggregator").State)
	lost := replicaIn(t, p, "core at 192.0.2.2:6443")
	assert.Equal(t, State("ejected"), lost.State)
	assert.Equal(t, []Number{{}, {}, {}}, []Number{lost.CPU, lost.Memory, lost.Rate}, "what the aggregator does not know is not 0")
	assert.Equal(t, -1, lost.Restarts)
	assert.GreaterOrEqual(t, p.Every, interval)
}

func TestAViewThatCannotBeReadIsNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
		every  time.Duration
	}{
		"without the right":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, ErrRefused.Error(), refusedInterval},
		"with an ended token":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, ErrRefused.Error(), refusedInterval},
		"of another API server": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") }, "has no metric", interval},
		"with another answer":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "no metric begins with", interval},
		"that is too large": {func(w http.ResponseWriter, _ *http.Request) {
			for range 33 {
				if _, err := io.WriteString(w, strings.Repeat("up 1\n", 1<<20/5)); err != nil {
					return
				}
			}
			io.WriteString(w, strings.Repeat("up 1\n", 1<<20)) //nolint:errcheck // the client has left
		}, "MiB", interval},
	} {
		source := answering(t, test.answer)
		_, err := New(source).Next(t.Context(), 0)
		assert.ErrorContains(t, err, test.want, name)
		assert.GreaterOrEqual(t, source.Interval(), test.every, name)
	}
}

func TestABrowserThatLeavesCausesNoMoreQuestions(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	source := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		io.WriteString(w, smallView) //nolint:errcheck // the test ends
	})
	f := New(source)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 20 {
		f.Next(gone, 0) //nolint:errcheck // it has left
	}
	require.Len(t, next(t, f, nil).Services, 2)
	assert.EqualValues(t, 1, asked.Load())
}

// aggregators is a source that shows one aggregator at a time.
type aggregators struct {
	process  view.Process
	replicas []view.Replica
	failure  error
}

// Interval is longer than that of an aggregator.
func (a *aggregators) Interval() time.Duration { return 2 * time.Second }

func (a *aggregators) Observe(context.Context, int64) (*up.Observation, error) {
	if a.failure != nil {
		return nil, a.failure
	}
	a.process.CPUSeconds++
	own := a.process
	return &up.Observation{
		Time:        time.Now(),
		Processes:   []process.Status{{Component: "aggregator", Replica: "aggregator", Ready: true, StartTime: own.Started, ResidentMemoryBytes: 1, CPUSeconds: own.CPUSeconds}},
		Aggregators: []view.Aggregator{{Replicas: append([]view.Replica{}, a.replicas...), Process: &own}},
	}, nil
}

func (a *aggregators) send(n int64) { a.replicas[0].Requests += n }

func TestAnotherAggregatorRestartsRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
		a := &aggregators{process: view.Process{Started: one, CPUSeconds: 50}, replicas: []view.Replica{{Backend: "core", Endpoint: "a:1", State: "serving", Requests: 1000}}}
		f := New(a)
		f.numbersEvery = 0
		core := func(p *Picture) Replica { return replicaIn(t, p, "core at a:1") }
		p := next(t, f, nil)
		assert.Equal(t, Number{}, core(p).Rate, "nothing to compare with")
		assert.Equal(t, 5*time.Second, p.Over)
		a.send(20)
		p = next(t, f, p)
		assert.Equal(t, known(10), core(p).Rate)
		assert.Equal(t, known(0.5), replicaIn(t, p, "aggregator").CPU)
		assert.Equal(t, p.View.Since, p.Since)

		for _, other := range []struct {
			name   string
			change func()
		}{
			{"one that counts more", func() { a.process.Started = two; a.send(1_000_000) }},
			{"one that counts less", func() { a.process.Started = one; a.send(-1_000_000) }},
			{"one of the same start", func() { a.process.CPUSeconds = 0; a.send(1_000_000) }},
			{"one that has started anew", func() { a.process.Started = time.Now(); a.process.CPUSeconds = 0; a.replicas[0].Requests = 5 }},
		} {
			name := other.name
			other.change()
			p = next(t, f, p)
			assert.Equal(t, Number{}, core(p).Rate, name)
			assert.Equal(t, Number{}, replicaIn(t, p, "aggregator").CPU, name)
			assert.True(t, p.View.Others, name)
			assert.Equal(t, a.process.Started, p.View.Started, name)
			assert.Equal(t, p.At, p.View.Since, name)
			a.send(6)
			p = next(t, f, p)
			assert.Equal(t, known(3), core(p).Rate, name)
		}
		noted := 0
		for _, change := range p.Changes {
			if change.Text == "another one answers" {
				noted++
			}
		}
		assert.Equal(t, 1, noted, "once a minute")

		// A replica that ends and returns to its address counts from 0.
		a.replicas[0].Requests = 4
		p = next(t, f, p)
		assert.Less(t, core(p).Rate.Value, 4.)
		assert.True(t, p.View.Since.Before(p.At), "the aggregator is the same")
		a.replicas = a.replicas[:0]
		p = next(t, f, p)
		assert.Len(t, p.Services, 1)
		assert.Equal(t, "core at a:1", p.Lanes[1].Replica)
		assert.Equal(t, Gone, p.Lanes[1].Spans[len(p.Lanes[1].Spans)-1].State)
	})
}

func TestARightThatEndsTakesThePictureAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &aggregators{replicas: []view.Replica{{Backend: "core", Endpoint: "a:1", State: "serving"}}}
		f := New(a)
		p := next(t, f, nil)
		a.failure = errors.New("no route to host" + strings.Repeat("!", 1000))
		p = next(t, f, p)
		assert.Contains(t, p.Failure, "no route to host")
		assert.Less(t, len(p.Failure), 600)
		assert.Len(t, p.Services, 2, "the last answer")
		a.failure = ErrRefused
		_, err := f.Next(t.Context(), p.Version)
		assert.ErrorIs(t, err, ErrRefused)
		_, err = f.Next(t.Context(), 0)
		assert.ErrorIs(t, err, ErrRefused)
		a.failure = nil
		time.Sleep(f.source.Interval())
		p = next(t, f, nil)
		assert.Empty(t, p.Changes)
		assert.Equal(t, p.At, p.Since)
	})
}

// newTestSession returns a session that sees one replica.
func newTestSession(room *Room, user, replica string) *Session {
	return NewSession(&aggregators{replicas: []view.Replica{{Backend: "core", Endpoint: replica, State: "serving"}}}, room, user)
}

func TestSessionsShareNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := NewRoom(10, 2)
		ann, tom := newTestSession(room, "ann", "a:1"), newTestSession(room, "tom", "b:1")
		var all sync.WaitGroup
		for range 10 {
			for session, replica := range map[*Session]string{ann: "core at a:1", tom: "core at b:1"} {
				all.Go(func() {
					p, err := session.Next(t.Context(), 0)
					if assert.NoError(t, err) {
						assert.Equal(t, replica, p.Services[1].Replicas[0].Name)
					}
				})
			}
		}
		all.Wait()
		assert.Equal(t, 2, room.taken)
		time.Sleep(idle)
		synctest.Wait()
		assert.Zero(t, room.taken, "no page is open")
		assert.Nil(t, ann.follower)
	})
}

func TestFollowersOfSessionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := NewRoom(3, 2)
		var sessions []*Session
		for _, user := range []string{"ann", "ann", "ann", "tom", "eve"} {
			sessions = append(sessions, newTestSession(room, user, "a:1"))
		}
		for i, want := range []error{nil, nil, errFull, nil, errFull} {
			_, err := sessions[i].Next(t.Context(), 0)
			assert.ErrorIs(t, err, want, i)
		}
		sessions[0].End()
		_, err := sessions[0].Next(t.Context(), 0)
		assert.ErrorIs(t, err, errEnded)
		_, err = sessions[4].Next(t.Context(), 0)
		assert.NoError(t, err, "the place of the session that has ended")

		// A page that is open when the session ends holds the place until it is done.
		p, err := sessions[1].Next(t.Context(), 0)
		require.NoError(t, err)
		waits := make(chan error)
		go func() {
			_, err := sessions[1].Next(t.Context(), p.Version)
			waits <- err
		}()
		synctest.Wait()
		sessions[1].End()
		assert.Equal(t, 3, room.taken)
		assert.NoError(t, <-waits)
		synctest.Wait()
		assert.Equal(t, 2, room.taken)
		sessions[3].End()
		sessions[4].End()
		time.Sleep(2 * idle)
		assert.Zero(t, room.taken)
		assert.Empty(t, room.users)
	})
}
