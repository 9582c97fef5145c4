// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package feed reports to aggregators what a replica of a backend serves, and its state (tripod.backend.v1).
package feed

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tripod-k8s/tripod/base/broadcast"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

const (
	// heartbeat is the time between messages when nothing changes. While aggregators receive them, they need not probe the replica.
	heartbeat = 400 * time.Millisecond
	// beatsOfQuiet is how many heartbeats make one while the replica gets no requests.
	beatsOfQuiet = 3
)

// Publisher has the state of a replica and reports it to all watchers. At first the replica is not ready.
type Publisher struct {
	backendv1.UnimplementedBackendServer
	run      string
	requests Requests
	stopped  chan struct{}
	stop     func()

	mu       sync.Mutex
	settings *backendv1.Settings
	// changed wakes all streams.
	changed  broadcast.Broadcast
	phase    backendv1.WatchResponse_Phase
	draining bool
	failing  []string
	catalog  *backendv1.Catalog
	// by UID, numbered in the order of arrival
	established map[string]numbered
	count       uint64
}

type numbered struct {
	*backendv1.Established
	number uint64
}

// Requests are those of a replica. Counter counts them.
type Requests interface {
	// InFlight is how many it works on.
	InFlight() int
	// Arrived is how many it has had since its start, without probes.
	Arrived() uint64
}

// NewPublisher returns the publisher of a replica with these settings.
func NewPublisher(settings *backendv1.Settings, requests Requests) *Publisher {
	stopped := make(chan struct{})
	return &Publisher{
		run:         uuid.NewString(),
		settings:    settings,
		requests:    requests,
		stopped:     stopped,
		stop:        sync.OnceFunc(func() { close(stopped) }),
		phase:       backendv1.WatchResponse_PHASE_NOT_READY,
		established: map[string]numbered{},
	}
}

// Register makes a gRPC server serve the feed.
func (p *Publisher) Register(s grpc.ServiceRegistrar) { backendv1.RegisterBackendServer(s, p) }

// SetSettings replaces the settings.
func (p *Publisher) SetSettings(settings *backendv1.Settings) {
	p.change(func() bool {
		same := proto.Equal(p.settings, settings)
		p.settings = settings
		return !same
	})
}

// SetReady makes the replica ready if no check fails.
func (p *Publisher) SetReady(failing []string) {
	phase := backendv1.WatchResponse_PHASE_SERVING
	if len(failing) > 0 {
		phase = backendv1.WatchResponse_PHASE_NOT_READY
	}
	p.change(func() bool {
		same := p.phase == phase && slices.Equal(p.failing, failing)
		p.phase, p.failing = phase, failing
		return !same
	})
}

// Drain says that the replica will stop. It cannot be undone.
func (p *Publisher) Drain() {
	p.change(func() bool {
		before := p.draining
		p.draining = true
		return !before
	})
}

// Stop ends all streams.
func (p *Publisher) Stop() { p.stop() }

// SetCatalog replaces the list of what the replica serves.
func (p *Publisher) SetCatalog(catalog *backendv1.Catalog) {
	p.change(func() bool {
		same := proto.Equal(p.catalog, catalog)
		p.catalog = catalog
		return !same
	})
}

// Establish says that this replica serves a custom resource. A second call does nothing.
func (p *Publisher) Establish(resource *backendv1.Established) {
	p.change(func() bool {
		if known, ok := p.established[resource.GetUid()]; ok && proto.Equal(known.Established, resource) {
			return false
		}
		p.count++
		p.established[resource.GetUid()] = numbered{resource, p.count}
		return true
	})
}

// Forget removes a custom resource. It sends no message: watchers learn it from the catalog or from a 404.
func (p *Publisher) Forget(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.established, uid)
}

func (p *Publisher) change(apply func() (changed bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if apply() {
		p.changed.Send()
	}
}

// Watch implements backendv1.BackendServer.
func (p *Publisher) Watch(_ *backendv1.WatchRequest, stream grpc.ServerStreamingServer[backendv1.WatchResponse]) error {
	w := watcher{publisher: p}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		message, changed := w.next()
		if err := stream.Send(message); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-changed:
				waiting = false
			case <-beat.C:
				waiting = w.isQuiet()
			case <-p.stopped:
				return status.Error(codes.Unavailable, "the replica stops")
			case <-stream.Context().Done():
				return context.Cause(stream.Context())
			}
		}
	}
}

// isQuiet reports whether a heartbeat can be left out, because the last message said so, and no request has arrived since. While a probe
// waits for its answer, heartbeats say that the replica is alive.
func (w *watcher) isQuiet() bool {
	w.beats++
	requests := w.publisher.requests
	return w.quiet && w.beats < beatsOfQuiet && requests.Arrived() == w.arrived && requests.InFlight() == 0
}

// watcher remembers what it sent to one watcher. It has no queue, so a slow reader gets fewer messages.
type watcher struct {
	publisher *Publisher
	settings  *backendv1.Settings
	catalog   *backendv1.Catalog
	// number is the number of the last custom resource sent.
	number uint64
	// arrived is how many requests there had been at the last message, quiet whether it announced fewer heartbeats, and beats how many there
	// could have been since.
	arrived uint64
	quiet   bool
	beats   int
}

// next returns the news, and a channel that is closed when there is more.
func (w *watcher) next() (*backendv1.WatchResponse, <-chan struct{}) {
	p := w.publisher
	inFlight := p.requests.InFlight()
	arrived := p.requests.Arrived()
	// A replica is quiet if it has had no request since the message before, and a whole heartbeat has passed.
	w.quiet, w.arrived, w.beats = w.beats > 0 && arrived == w.arrived && inFlight == 0, arrived, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	message := &backendv1.WatchResponse{
		Run:              p.run,
		Phase:            p.phase,
		FailingChecks:    p.failing,
		RequestsInFlight: uint32(max(inFlight, 0)),
	}
	if w.quiet {
		message.NextMilliseconds = uint32((beatsOfQuiet * heartbeat).Milliseconds())
	}
	if p.draining {
		message.Phase = backendv1.WatchResponse_PHASE_DRAINING
	}
	if p.settings != w.settings {
		message.Settings, w.settings = p.settings, p.settings
	}
	if p.catalog != w.catalog {
		message.Catalog, w.catalog = p.catalog, p.catalog
	}
	if w.number < p.count {
		byNumber := func(a, b numbered) int { return cmp.Compare(a.number, b.number) }
		for _, resource := range slices.SortedFunc(maps.Values(p.established), byNumber) {
			if resource.number > w.number {
				message.Established = append(message.Established, resource.Established)
			}
		}
		w.number = p.count
	}
	return message, p.changed.Next()
}
