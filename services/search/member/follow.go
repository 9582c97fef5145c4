// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// errSilent means that a watch has sent nothing for long.
var errSilent = errors.New("the watch is silent")

// follow copies the events of a watch. With initial, the watch begins with a streaming list, which listing marks.
func (s *stream) follow(ctx context.Context, initial bool, listing int64) error {
	var beside sync.WaitGroup
	defer beside.Wait() // its context ends before
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer s.following.Store(nil)
	defer func() {
		if s.full != nil { // a list reads what had no room, if there is some now
			s.target.ResourceVersion = ""
		}
		s.readsAnew()
	}()
	w := &following{target: s.target}
	from := s.source
	from.follows = w
	opened := func() {
		if w.began = time.Now(); initial {
			return
		}
		if w.isListed(); s.full == nil {
			s.following.Store(w)
		}
	}
	inList := initial
	events := make(chan read)
	failed := make(chan error, 1)
	go func() {
		defer close(events)
		failed <- s.watchAll(ctx, from, initial, opened, func(e event) error {
			w.count(1)
			r, err := s.read(e, inList)
			if err != nil {
				return err
			}
			if r.syncedAt = e.syncedAt; e.placed != nil {
				r.resourceVersion, r.syncedAt = e.placed(r.resourceVersion)
			}
			inList = inList && !r.listed
			select {
			case events <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	if !initial {
		s.syncing()
		s.saveStatus(ctx)
	}
	if s.decidesRights() {
		beside.Go(func() { s.endWhenLate(ctx, w, end) })
	}
	err := s.writeAll(ctx, w, events, listing, s.silence)
	if err != nil {
		end(nil)
		for r := range events { // the reader ends
			r.done()
		}
	} else {
		err = <-failed
	}
	return howEnded(ctx, err)
}

// howEnded returns how a watch with a context has ended.
func howEnded(ctx context.Context, err error) error {
	if late := (*LimitError)(nil); errors.As(context.Cause(ctx), &late) {
		return late
	}
	if errors.Is(err, errSilent) {
		return nil
	}
	return err
}

// lateAfter is for how long a watch of objects that decide what readers see may be behind what the member has sent.
const lateAfter = 30 * time.Second

// endWhenLate ends a watch that is late: a reader may have lost rights meanwhile. While the store is away, no reader sees what it has.
func (s *stream) endWhenLate(ctx context.Context, w *following, end context.CancelCauseFunc) {
	looks := time.NewTicker(s.lateAfter / 10)
	defer looks.Stop()
	for failures := s.storeFailures.Load(); ; {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		if now := s.storeFailures.Load(); now != failures {
			failures = now
			w.caughtUp(time.Now())
		}
		if at := w.caught.Load(); w.listed.Load() && w.unwritten.Load() > 0 && time.Since(time.Unix(0, at)) > s.lateAfter {
			end(limited("late", "", "search has not read for more than %s what the cluster has sent", s.lateAfter))
			return
		}
	}
}

// watchAll watches the resource from where the store is, in all namespaces or in those that search copies.
func (s *stream) watchAll(ctx context.Context, from source, initial bool, opened func(), each func(event) error) error {
	if len(s.namespaces) > 0 {
		return from.watchNamespaces(ctx, s.target.ResourceVersion, s.silence, opened, each)
	}
	return from.watch(ctx, s.target.ResourceVersion, initial, opened, each)
}

// read is an event as the store takes it.
type read struct {
	item
	change *store.Change
	// resourceVersion is where a watch goes on after the event.
	resourceVersion string
	// syncedAt is up to when the event and those before it are all that the member has sent, in each namespace if they are watched one by one.
	// It is zero if that is not known.
	syncedAt time.Time
	// listed is set at the end of a streaming list.
	listed bool
}

// read reads an event. In a list, objects come as if they were added.
func (s *stream) read(e event, inList bool) (read, error) {
	switch e.Type {
	case watch.Bookmark:
		b, err := readBookmark(e.Object)
		if e.initialEnd(b) {
			e.quiet()
		}
		return read{item: e.item, resourceVersion: b.ResourceVersion, listed: e.initialEnd(b)}, err
	case watch.Added, watch.Modified, watch.Deleted:
		how := changedObject
		switch {
		case e.Type == watch.Deleted:
			how = deletedObject
		case e.Type == watch.Added && inList:
			how = listedObject
		}
		change, resourceVersion, err := s.change(e.Object, how)
		return read{item: e.item, change: change, resourceVersion: resourceVersion}, err
	}
	return read{}, fmt.Errorf("%w: an event of the type %.80q", errNoEvents, e.Type)
}

// occasion is how a member has sent an object.
type occasion int

const (
	listedObject occasion = iota
	changedObject
	deletedObject
)

// change returns what the store is to know of an object: nothing of an event about something that does not count, or of an object of a list
// that has no name. A watch cannot go on after such an object, because any object of the store may be an older state of it.
func (s *stream) change(object []byte, how occasion) (change *store.Change, resourceVersion string, err error) {
	var o store.Object
	s.limiter.decode(func() { o, err = NewObject(s.cluster, s.kind, object) })
	resourceVersion = o.ResourceVersion
	if err == nil && resourceVersion == "" {
		o.ResourceVersion = versionOfText(o.JSON)
	}
	if err == nil && s.involved != nil {
		if o.Involved, err = s.involved.of(&o); err == nil && o.Involved == nil {
			return nil, resourceVersion, nil
		}
	}
	flood, first := s.charge(&o, len(object), how)
	switch {
	case flood != nil && !first && o.Name != "":
		return nil, resourceVersion, nil
	case flood != nil && o.Name != "":
		s.refused(o, flood)
		instead := refusedObject(s.cluster, s.kind, o, flood)
		return &instead, resourceVersion, nil
	case err == nil || o.Name != "" && how == deletedObject:
		return &store.Change{Object: o, Deleted: how == deletedObject}, resourceVersion, nil
	case o.Name == "" && how != listedObject:
		s.refused(o, err)
		return nil, "", err
	}
	s.refused(o, err)
	if o.Name == "" {
		return nil, "", nil
	}
	instead := refusedObject(s.cluster, s.kind, o, err)
	return &instead, resourceVersion, nil
}

// charge counts what an object has, for which the next one waits. It returns why the object is not written, see floods.
func (s *stream) charge(o *store.Object, size int, how occasion) (flood error, first bool) {
	rows := len(o.Labels) + len(o.Owners)
	if !s.decidesRights() {
		s.limiter.charge(rows / changeRows)
		return nil, false
	}
	rows /= rowsOfRights
	if how == listedObject {
		s.limiter.charge(rightsRate * rows)
		return nil, false
	}
	changes := 1 + size/changeSize + rows
	if flood, first = s.floods(o.Namespace, changes); flood == nil || first {
		s.limiter.charge((rightsRate-1)*changes + rows)
	}
	return flood, first
}

// writeAll writes events in batches. It returns when events is closed and all is written, or after silence.
func (s *stream) writeAll(ctx context.Context, w *following, events <-chan read, listing int64, silence time.Duration) error {
	b := batch{stream: s, following: w, listing: listing}
	defer b.drop()
	silent := time.NewTimer(silence)
	defer silent.Stop()
	for {
		silent.Reset(silence)
		select {
		case r, more := <-events:
			if !more {
				return b.flush(ctx)
			}
			if err := b.add(ctx, r); err != nil {
				return err
			}
			if r.listed {
				if err := s.listed(ctx, listing, r.resourceVersion); err != nil {
					return err
				}
				w.isListed()
				if b.listing = 0; s.full == nil {
					s.following.Store(w)
				}
			}
		case <-b.due:
			if err := b.flush(ctx); err != nil {
				return err
			}
		case <-silent.C:
			if w.unwritten.Load() > 0 { // the member waits for search, or its time for an item runs
				continue
			}
			if b.listing != 0 {
				return &LimitError{Limit: limitTime, Message: "the list stands still"}
			}
			return errSilent
		}
	}
}
