// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package feed tells aggregators what a replica of a backend serves and how it is: tripod.backend.v1.
package feed

import (
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

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// signOfLife is how often a message is sent when nothing changes.
const signOfLife = time.Second

// Publisher is the state of a replica, told to everybody who watches. A new one is not ready.
type Publisher struct {
	backendv1.UnimplementedBackendServer
	run      string
	inFlight func() int
	stopped  chan struct{}
	stop     func()

	mu       sync.Mutex
	settings *backendv1.Settings
	// changed is closed, and replaced, with every change.
	changed  chan struct{}
	phase    backendv1.WatchResponse_Phase
	draining bool
	failing  []string
	catalog  *backendv1.Catalog
	// established by UID, numbered in the order in which they came.
	established map[string]numbered
	count       uint64
}

type numbered struct {
	*backendv1.Established
	number uint64
}

// NewPublisher returns the publisher of a replica that was started with these settings. inFlight counts its requests in flight.
func NewPublisher(settings *backendv1.Settings, inFlight func() int) *Publisher {
	stopped := make(chan struct{})
	return &Publisher{
		run:         uuid.NewString(),
		settings:    settings,
		inFlight:    inFlight,
		stopped:     stopped,
		stop:        sync.OnceFunc(func() { close(stopped) }),
		changed:     make(chan struct{}),
		phase:       backendv1.WatchResponse_PHASE_NOT_READY,
		established: map[string]numbered{},
	}
}

// Register makes a gRPC server serve the feed.
func (p *Publisher) Register(s grpc.ServiceRegistrar) { backendv1.RegisterBackendServer(s, p) }

// SetSettings says that the settings changed.
func (p *Publisher) SetSettings(settings *backendv1.Settings) {
	p.change(func() bool {
		same := proto.Equal(p.settings, settings)
		p.settings = settings
		return !same
	})
}

// SetReady says whether the replica wants requests: it does when no check fails.
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

// Drain says that the replica will stop. There is no way back.
func (p *Publisher) Drain() {
	p.change(func() bool {
		before := p.draining
		p.draining = true
		return !before
	})
}

// Stop ends all streams.
func (p *Publisher) Stop() { p.stop() }

// SetCatalog says what the replica serves.
func (p *Publisher) SetCatalog(catalog *backendv1.Catalog) {
	p.change(func() bool {
		same := proto.Equal(p.catalog, catalog)
		p.catalog = catalog
		return !same
	})
}

// Establish says that a custom resource is usable here. To say it again does nothing.
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

// Forget says that a custom resource is gone. Nobody is told: whoever knew it learns it from the catalog or from a 404.
func (p *Publisher) Forget(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.established, uid)
}

func (p *Publisher) change(apply func() (changed bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if apply() {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// Watch implements backendv1.BackendServer.
func (p *Publisher) Watch(_ *backendv1.WatchRequest, stream grpc.ServerStreamingServer[backendv1.WatchResponse]) error {
	w := watcher{publisher: p}
	beat := time.NewTicker(signOfLife)
	defer beat.Stop()
	for {
		message, changed := w.next()
		if err := stream.Send(message); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-beat.C:
		case <-p.stopped:
			return status.Error(codes.Unavailable, "the replica stops")
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		}
	}
}

// watcher knows what one watcher was told. There is no queue: who reads slowly gets fewer messages.
type watcher struct {
	publisher *Publisher
	settings  *backendv1.Settings
	catalog   *backendv1.Catalog
	// number is that of the last custom resource that was told.
	number uint64
}

// next returns what is new, and what is closed when there is more.
func (w *watcher) next() (*backendv1.WatchResponse, <-chan struct{}) {
	p := w.publisher
	inFlight := p.inFlight()
	p.mu.Lock()
	defer p.mu.Unlock()
	message := &backendv1.WatchResponse{
		Run:              p.run,
		Phase:            p.phase,
		FailingChecks:    p.failing,
		RequestsInFlight: uint32(max(inFlight, 0)), //nolint:gosec // not that many
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
		for _, resource := range slices.SortedFunc(maps.Values(p.established), func(a, b numbered) int { return int(a.number) - int(b.number) }) { //nolint:gosec // not that many
			if resource.number > w.number {
				message.Established = append(message.Established, resource.Established)
			}
		}
		w.number = p.count
	}
	return message, p.changed
}
