// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// Phase is what a stream does. The names are those of Clusterpedia.
type Phase string

// The phases.
const (
	// Pending streams have not read anything yet.
	Pending Phase = "Pending"
	// Syncing streams list or watch.
	Syncing Phase = "Syncing"
	// Failed streams try again.
	Failed Phase = "Error"
	// Stopped streams leave their resource to another replica as long as that one is heard.
	Stopped Phase = "Stop"
)

// Status is the state of a stream.
type Status struct {
	Kind    store.Kind `json:"-"`
	Phase   Phase
	Reason  string
	Message string
	// Listing is set while the first list goes on.
	Listing bool
	// Since is when Phase has changed.
	Since time.Time
	// Refused are objects that the database does not take, NAMESPACE/NAME: why. There are at most maxRefused.
	Refused map[string]string
}

// maxRefused bounds the refused objects that a status names.
const maxRefused = 10

// stream copies a resource of a member.
type stream struct {
	source
	cluster string
	kind    store.Kind
	store   *store.Store
	// abandonedAfter is the constant, except in tests.
	abandonedAfter time.Duration
	// involved is set for the stream of store.InvolvedEvents.
	involved *involvement
	// target is nil until the stream is open in the store.
	target *store.Stream
	// following is nil unless a watch is open and its initial list is written.
	following atomic.Pointer[following]
	// silence is the constant, except in tests.
	silence time.Duration
	// endList ends the list that goes on. It may be called again.
	endList func()
	// answers are those of the member.
	answers *answers

	mu     sync.Mutex
	status Status
	// told is what the database has of status, in JSON.
	told string
}

func newStream(cluster string, kind store.Kind, from source, to *store.Store) *stream {
	return &stream{source: from, cluster: cluster, kind: kind, store: to, abandonedAfter: abandonedAfter, silence: silence, answers: &answers{}, endList: func() {}, status: Status{Kind: kind, Phase: Pending, Since: time.Now()}}
}

// Status returns the state of the stream.
func (s *stream) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *stream) set(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.status.Phase
	change(&s.status)
	if s.status.Phase != before {
		s.status.Since = time.Now()
	}
}

func (s *stream) syncing(listing bool) {
	s.set(func(status *Status) {
		status.Phase, status.Reason, status.Message, status.Listing = Syncing, "", "", listing
	})
}

// tell lets other replicas know the state of the stream. What it cannot tell now, it tells with the next batch.
func (s *stream) tell(ctx context.Context) {
	status := s.Status()
	text, err := json.Marshal(status)
	if err != nil || s.target == nil || string(text) == s.told {
		return
	}
	if err := s.store.Tell(ctx, s.target, status); err != nil {
		klog.V(2).InfoS("The state of a stream is not known to other replicas", "cluster", s.cluster, "resource", s.resource, "err", err)
		return
	}
	s.told = string(text)
}

// run copies until the context ends, or until another replica copies this resource.
func (s *stream) run(ctx context.Context) {
	pauses := retries()
	for ctx.Err() == nil {
		began := time.Now()
		err := s.copy(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrFenced):
			s.set(func(status *Status) { status.Phase, status.Reason, status.Message = Stopped, "TakenOver", err.Error() })
			if !s.awaitAbandoned(ctx) {
				return
			}
			s.target = nil
		case err == nil:
			pauses = retries()
			if time.Since(began) > time.Second { // a watch that has ended in its time
				continue
			}
		default:
			s.fail(err)
			s.tell(ctx)
		}
		if time.Since(began) > time.Minute {
			pauses = retries()
		}
		s.pause(ctx, pauses.Step(), err)
	}
}

// abandonedAfter is how long nobody may hear of the writer of a stream until another replica takes it over. A quiet member sends a bookmark each minute.
const abandonedAfter = 3 * time.Minute

// awaitAbandoned returns true when the writer that has taken over has not been heard for long, and false if the context ends or the stream is gone.
func (s *stream) awaitAbandoned(ctx context.Context) bool {
	for ctx.Err() == nil {
		alive, err := s.store.Alive(ctx, s.target)
		if errors.Is(err, sql.ErrNoRows) {
			return false
		}
		if err == nil && time.Since(alive) > s.abandonedAfter {
			return true
		}
		sleep(ctx, s.abandonedAfter/6)
	}
	return false
}

func (s *stream) fail(err error) {
	klog.V(2).InfoS("Stream fails", "cluster", s.cluster, "resource", s.resource, "err", err)
	reason := "MemberFails"
	if failed := apierrors.ReasonForError(err); failed != "" {
		reason = string(failed)
	}
	if errors.As(err, new(storeError)) {
		reason = "DatabaseFails"
	}
	s.set(func(status *Status) { status.Phase, status.Reason, status.Message = Failed, reason, err.Error() })
}

// storeError is an error of the store, not of the member.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// copy lists unless the store knows where to go on, and then watches until the watch ends.
func (s *stream) copy(ctx context.Context) error {
	if s.target == nil {
		target, err := s.store.OpenStream(ctx, s.cluster, s.kind)
		if err != nil {
			return storeError{err}
		}
		s.target = target
	}
	if !s.target.Listed || s.target.ResourceVersion == "" {
		return s.list(ctx)
	}
	err := s.follow(ctx, false, 0)
	if expired(err) {
		s.target.ResourceVersion = "" // the next turn lists
		return nil
	}
	return err
}

// list copies all objects, removes others, and goes on to watch.
func (s *stream) list(ctx context.Context) error {
	s.endList = beginList(s.store)
	defer func() { s.endList() }()
	s.syncing(true)
	s.tell(ctx)
	listing := time.Now().UnixNano()
	err := s.follow(ctx, true, listing)
	if !noStreamingList(err) {
		return err
	}
	resourceVersion, err := s.pages(ctx, listing)
	if err != nil {
		return err
	}
	return s.listed(ctx, listing, resourceVersion)
}

func (s *stream) listed(ctx context.Context, listing int64, resourceVersion string) error {
	if err := s.keepTrying(ctx, func() error { return s.store.Sweep(ctx, s.target, listing, resourceVersion) }); err != nil {
		return err
	}
	s.endList()
	s.target.Listed, s.target.ResourceVersion = true, resourceVersion
	s.syncing(false)
	s.tell(ctx)
	return nil
}

// pages copies a list page by page. If its token expires, it begins again.
func (s *stream) pages(ctx context.Context, listing int64) (resourceVersion string, err error) {
	for token := ""; ; {
		var changes []store.Change
		token, resourceVersion, err = s.page(ctx, token, func(object jsontext.Value) error {
			change, _, err := s.change(object, false)
			if change != nil {
				changes = append(changes, *change)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		if err := s.write(ctx, store.Batch{Changes: changes, Listing: listing, Heard: time.Unix(0, listing)}); err != nil {
			return "", err
		}
		if token == "" {
			return resourceVersion, nil
		}
	}
}

// errSilent says that a watch has said nothing for long.
var errSilent = errors.New("the watch is silent")

// follow copies the events of a watch. With initial, the watch begins with a streaming list, which listing marks.
func (s *stream) follow(ctx context.Context, initial bool, listing int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.following.Store(nil)
	w := &following{target: s.target}
	opened := func() {
		if w.began = time.Now(); !initial {
			s.following.Store(w)
		}
	}
	events := make(chan read)
	failed := make(chan error, 1)
	go func() {
		defer close(events)
		failed <- s.watch(ctx, s.target.ResourceVersion, initial, opened, func(e event) error {
			w.unwritten.Add(1)
			r, err := s.read(e)
			if err != nil {
				return err
			}
			select {
			case events <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	if !initial {
		s.syncing(false)
		s.tell(ctx)
	}
	if err := s.writeAll(ctx, w, events, listing); err != nil {
		cancel()
		for range events { //nolint:revive // the reader ends
		}
		if errors.Is(err, errSilent) {
			return nil
		}
		return err
	}
	return <-failed
}

// read is an event as the store takes it.
type read struct {
	change *store.Change
	// resourceVersion is where a watch goes on after the event.
	resourceVersion string
	// listed is set at the end of a streaming list.
	listed bool
}

func (s *stream) read(e event) (read, error) {
	switch e.Type {
	case watch.Bookmark:
		m, err := readMetadata(e.Object)
		return read{resourceVersion: m.ResourceVersion, listed: e.initialEnd(m)}, err
	case watch.Added, watch.Modified, watch.Deleted:
		change, resourceVersion, err := s.change(e.Object, e.Type == watch.Deleted)
		return read{change: change, resourceVersion: resourceVersion}, err
	}
	return read{}, fmt.Errorf("the member sends an event of the unknown type %q", e.Type)
}

// change returns what the store is to know of an object, which is nothing of an event about something that does not count.
func (s *stream) change(object []byte, deleted bool) (change *store.Change, resourceVersion string, err error) {
	o, err := NewObject(s.cluster, s.kind, object)
	if err == nil && s.involved != nil {
		o.Involved, err = s.involved.of(&o)
		if o.Involved == nil {
			return nil, o.ResourceVersion, err
		}
	}
	return &store.Change{Object: o, Deleted: deleted}, o.ResourceVersion, err
}

// A batch has this many changes at most, and waits this long for more.
const (
	batchSize = 500
	batchTime = 50 * time.Millisecond
)

// writeAll writes events in batches. It returns when events is closed and all is written.
func (s *stream) writeAll(ctx context.Context, w *following, events <-chan read, listing int64) error {
	b := batch{stream: s, following: w, listing: listing}
	silent := time.NewTimer(s.silence)
	defer silent.Stop()
	for {
		silent.Reset(s.silence)
		select {
		case r, more := <-events:
			if !more {
				return b.flush(ctx)
			}
			b.add(r)
			if len(b.Changes) >= batchSize || r.listed {
				if err := b.flush(ctx); err != nil {
					return err
				}
			}
			if r.listed {
				if err := s.listed(ctx, listing, r.resourceVersion); err != nil {
					return err
				}
				b.listing = 0
				s.following.Store(w)
			}
		case <-b.due:
			if err := b.flush(ctx); err != nil {
				return err
			}
		case <-silent.C:
			if b.listing == 0 {
				return errSilent
			}
		}
	}
}

// batch collects events.
type batch struct {
	*stream
	*following
	store.Batch
	// listing marks the objects of a list.
	listing int64
	events  int64
	due     <-chan time.Time
}

func (b *batch) add(r read) {
	b.events++
	b.ResourceVersion, b.Heard = r.resourceVersion, time.Now()
	if r.change != nil {
		b.Changes = append(b.Changes, *r.change)
	}
	if b.due == nil {
		b.due = time.After(batchTime)
	}
}

func (b *batch) flush(ctx context.Context) error {
	b.due = nil
	if b.events == 0 {
		return nil
	}
	// Objects of a list are in no order, so none of their resourceVersions is where a watch could go on.
	if b.Listing = b.listing; b.listing != 0 {
		b.ResourceVersion, b.Heard = "", time.Unix(0, b.listing)
	}
	err := b.write(ctx, b.Batch)
	if err == nil && b.ResourceVersion != "" {
		b.stream.target.ResourceVersion = b.ResourceVersion
		b.tell(ctx)
	}
	if err == nil {
		b.unwritten.Add(-b.events)
	}
	b.Batch, b.events = store.Batch{}, 0
	return err
}

// write writes a batch. While the store is away, it waits. If the store refuses an object, the others are written alone.
func (s *stream) write(ctx context.Context, batch store.Batch) error {
	err := s.keepTrying(ctx, func() error { return s.store.Write(ctx, s.target, batch) })
	if !store.IsRefused(err) {
		return err
	}
	for _, change := range batch.Changes {
		alone := store.Batch{Changes: []store.Change{change}, Listing: batch.Listing, Heard: batch.Heard}
		err := s.keepTrying(ctx, func() error { return s.store.Write(ctx, s.target, alone) })
		if store.IsRefused(err) {
			s.refused(change, err)
			s.tell(ctx)
		} else if err != nil {
			return err
		}
	}
	return s.keepTrying(ctx, func() error {
		return s.store.Write(ctx, s.target, store.Batch{ResourceVersion: batch.ResourceVersion, Listing: batch.Listing, Heard: batch.Heard})
	})
}

func (s *stream) refused(change store.Change, err error) {
	name := change.Namespace + "/" + change.Name
	klog.ErrorS(err, "The database refuses an object", "cluster", s.cluster, "resource", s.resource, "object", name)
	s.set(func(status *Status) {
		refused := map[string]string{name: err.Error()}
		for other, why := range status.Refused { // the map that others may read stays as it is
			if len(refused) < maxRefused {
				refused[other] = why
			}
		}
		status.Refused = refused
	})
}
