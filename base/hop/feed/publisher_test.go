// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

const (
	notReady = backendv1.WatchResponse_PHASE_NOT_READY
	serving  = backendv1.WatchResponse_PHASE_SERVING
	draining = backendv1.WatchResponse_PHASE_DRAINING
)

// stream is the server's end of a stream. Its client reads when the test lets it.
type stream struct {
	grpc.ServerStreamingServer[backendv1.WatchResponse]
	ctx  context.Context
	sent chan *backendv1.WatchResponse
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) Send(m *backendv1.WatchResponse) error {
	select {
	case s.sent <- m:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// watch starts a watch. It returns the stream, and a channel that gets its end.
func watch(t *testing.T, p *Publisher) (*stream, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := &stream{ctx: ctx, sent: make(chan *backendv1.WatchResponse)}
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(nil, s) }()
	return s, ended
}

func (s *stream) expect(t *testing.T, want *backendv1.WatchResponse) {
	t.Helper()
	got := <-s.sent
	assert.Empty(t, cmp.Diff(want, got, protocmp.Transform()), "message")
}

// requests are those of a replica.
type requests struct {
	inFlight atomic.Int64
	arrived  atomic.Uint64
}

func (r *requests) InFlight() int   { return int(r.inFlight.Load()) }
func (r *requests) Arrived() uint64 { return r.arrived.Load() }

// TestAReplicaWithoutRequestsSendsFewerMessages has one request after a while, and a change.
func TestAReplicaWithoutRequestsSendsFewerMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		had := &requests{}
		p := NewPublisher(nil, had)
		p.SetReady(nil)
		const few = beatsOfQuiet * heartbeat
		first, _ := watch(t, p)
		next := func(after, announced time.Duration) {
			t.Helper()
			began := time.Now()
			got := <-first.sent
			assert.Equal(t, after, time.Since(began), "since the message before")
			assert.EqualValues(t, announced.Milliseconds(), got.GetNextMilliseconds())
		}
		next(0, 0)
		next(heartbeat, few)
		next(few, few)
		time.Sleep(heartbeat / 2)
		had.arrived.Add(1)
		next(heartbeat/2, 0)
		had.arrived.Add(1)
		next(heartbeat, 0)
		next(heartbeat, few)
		p.SetReady([]string{"etcd"})
		next(0, 0)
		next(heartbeat, few)
		had.inFlight.Store(1) // a probe
		next(heartbeat, 0)
		next(heartbeat, 0)
	})
}

func resource(n int) *backendv1.Established {
	return &backendv1.Established{Group: "example.com", Resource: fmt.Sprintf("r%d", n), Uid: fmt.Sprintf("u%d", n)}
}

func TestAWatcherReceivesEverythingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := &backendv1.Settings{EmulationVersion: "1.35"}
		had := &requests{}
		had.inFlight.Store(7)
		p := NewPublisher(settings, had)
		message := func(phase backendv1.WatchResponse_Phase, change func(*backendv1.WatchResponse)) *backendv1.WatchResponse {
			m := &backendv1.WatchResponse{Run: p.run, Phase: phase, RequestsInFlight: 7}
			if change != nil {
				change(m)
			}
			return m
		}
		catalog := &backendv1.Catalog{GroupVersions: []*backendv1.GroupVersion{{Version: "v1"}}, DiscoveryDigest: "a"}
		p.SetReady([]string{"etcd"})
		p.Establish(resource(1))
		first, _ := watch(t, p)
		first.expect(t, message(notReady, func(m *backendv1.WatchResponse) {
			m.FailingChecks, m.Established, m.Settings = []string{"etcd"}, []*backendv1.Established{resource(1)}, settings
		}))

		p.SetCatalog(catalog)
		first.expect(t, message(notReady, func(m *backendv1.WatchResponse) { m.FailingChecks, m.Catalog = []string{"etcd"}, catalog }))
		p.SetReady(nil)
		first.expect(t, message(serving, nil))

		// Repeated calls send nothing, so the next message is a heartbeat.
		began := time.Now()
		p.SetReady(nil)
		p.Establish(resource(1))
		p.Forget("unknown")
		first.expect(t, message(serving, nil))
		assert.Equal(t, heartbeat, time.Since(began), "a sign of life after")

		// Changed settings are sent again.
		changed := &backendv1.Settings{EmulationVersion: "1.35", Configuration: &backendv1.Configuration{Audit: "off"}}
		p.SetSettings(changed)
		first.expect(t, message(serving, func(m *backendv1.WatchResponse) { m.Settings = changed }))
		settings = changed

		// Changes during a blocked message come at once in the next message.
		p.Establish(resource(2))
		synctest.Wait()
		p.Establish(resource(3))
		p.Establish(resource(4))
		p.Forget("u3")
		p.Drain()
		p.SetReady([]string{"shutdown"})
		first.expect(t, message(serving, func(m *backendv1.WatchResponse) { m.Established = []*backendv1.Established{resource(2)} }))
		first.expect(t, message(draining, func(m *backendv1.WatchResponse) {
			m.FailingChecks, m.Established = []string{"shutdown"}, []*backendv1.Established{resource(4)}
		}))

		second, _ := watch(t, p)
		second.expect(t, message(draining, func(m *backendv1.WatchResponse) {
			m.FailingChecks, m.Catalog, m.Settings = []string{"shutdown"}, catalog, settings
			m.Established = []*backendv1.Established{resource(1), resource(2), resource(4)}
		}))
	})
}

func TestStreamsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPublisher(nil, &requests{})
		cancelled, cancelledEnd := watch(t, p)
		<-cancelled.sent
		ctx, cancel := context.WithCancel(t.Context())
		gone := &stream{ctx: ctx, sent: make(chan *backendv1.WatchResponse)}
		goneEnd := make(chan error, 1)
		go func() { goneEnd <- p.Watch(nil, gone) }()
		<-gone.sent
		cancel()
		assert.ErrorIs(t, <-goneEnd, context.Canceled, "the stream of a client that is gone ends")
		p.Stop()
		p.Stop()
		if err := <-cancelledEnd; status.Code(err) != codes.Unavailable {
			t.Errorf("the stream of a replica that stops ends with %v", err)
		}
	})
}
