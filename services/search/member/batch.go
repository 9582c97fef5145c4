// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// A batch has this many changes and bytes at most, and waits this long for more.
const (
	batchSize  = 500
	batchBytes = 2 << 20
	batchTime  = 50 * time.Millisecond
)

// batch collects events.
type batch struct {
	*stream
	*following
	store.Batch
	// listing marks the objects of a list.
	listing int64
	// listed is how many objects the list had.
	listedObjects int
	events        int64
	// bytes are those of the changes, and held is their memory.
	bytes int
	held  int64
	large []item
	due   <-chan time.Time
}

// add adds an event, and writes the batch if it is large enough. It owns the item.
func (b *batch) add(ctx context.Context, r read) error {
	size := 0
	if r.change != nil {
		size = len(r.change.JSON)
	}
	n := b.limiter.weight(size)
	if !b.limiter.tryHold(n) {
		err := b.flush(ctx)
		if err == nil {
			err = b.limiter.hold(ctx, n)
		}
		if err != nil {
			r.done()
			return err
		}
	}
	b.held += n
	r.left()
	b.bytes += size
	b.events++
	if r.release != nil {
		b.large = append(b.large, r.item)
	}
	b.SyncedAt = b.syncedSince(r.syncedAt)
	if r.resourceVersion != "" {
		b.ResourceVersion = r.resourceVersion
	}
	if r.change != nil {
		b.Changes = append(b.Changes, *r.change)
	}
	if b.due == nil {
		b.due = time.After(batchTime)
	}
	if b.listing != 0 && r.change != nil {
		if b.listedObjects++; b.listedObjects > b.limiter.Objects {
			return limited("objects", "member-max-objects", "the list has more than %d objects", b.limiter.Objects)
		}
	}
	if len(b.Changes) >= batchSize || b.bytes >= batchBytes || len(b.large) > 0 || r.listed {
		return b.flush(ctx)
	}
	return nil
}

// drop gives the memory of a batch back.
func (b *batch) drop() {
	b.limiter.release(b.held)
	for i := range b.large {
		b.large[i].done()
	}
	b.Batch, b.events, b.bytes, b.held, b.large, b.due = store.Batch{}, 0, 0, 0, nil, nil
}

func (b *batch) flush(ctx context.Context) error {
	defer b.drop()
	if b.events == 0 {
		return nil
	}
	// Objects of a list are in no order, so none of their resourceVersions is where a watch could go on.
	if b.Listing = b.listing; b.listing != 0 {
		b.ResourceVersion, b.SyncedAt = "", time.Unix(0, b.listing)
	}
	resourceVersion := b.ResourceVersion
	var full error
	b.Room, full = b.usage.room(ctx, len(b.Changes), b.bytes)
	b.Incomplete = b.SyncedAt.IsZero()
	if full != nil || b.stream.full != nil { // the watch has to be able to go on from before, once there is room
		b.ResourceVersion, b.Relist, b.Incomplete = "", b.staysWhenFull(), b.Incomplete || b.stream.full != nil
	}
	synced := b.listing == 0 && !b.Incomplete
	if b.isFlooded.Load() { // the next writer has to list, too
		b.ResourceVersion, b.Relist, b.Incomplete = "", true, true
		b.stream.following.Store(nil)
	}
	b.ResourceVersion = storable(b.ResourceVersion)
	if err := b.write(ctx, b.Batch); err != nil {
		return err
	}
	if err := b.trim(ctx, len(b.Changes)); err != nil {
		return err
	}
	if resourceVersion != "" {
		b.stream.target.ResourceVersion = resourceVersion
		b.saveStatus(ctx)
	}
	if synced {
		b.caughtUp(b.SyncedAt)
	}
	b.count(-b.events)
	if b.target().LeftOut > 0 && full != nil {
		b.stream.full = full
		if b.listing == 0 && !b.staysWhenFull() {
			return full
		}
		if b.listing == 0 {
			b.stream.following.Store(nil)
			b.syncing()
			b.saveStatus(ctx)
		}
	}
	return nil
}

// staysWhenFull reports whether a stream goes on while the cluster has more than search keeps. What has no room shows nothing to any
// reader. But a user who may write many objects must not keep search from noticing that others lose rights.
func (s *stream) staysWhenFull() bool { return s.decidesRights() && s.target.Listed }

func (b *batch) target() *streams.Stream { return b.stream.target }

// write writes a batch. While the store is away, it waits. If the store refuses an object, the others are written alone.
func (s *stream) write(ctx context.Context, batch store.Batch) error {
	err := s.put(ctx, batch)
	if !isRefusedByStore(err) {
		return err
	}
	for _, change := range batch.Changes {
		alone := store.Batch{
			Changes: []store.Change{change}, Listing: batch.Listing, SyncedAt: batch.SyncedAt, Room: batch.Room, Incomplete: batch.Incomplete,
		}
		if err := s.put(ctx, alone); isRefusedByStore(err) {
			err = s.replace(ctx, alone, err)
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	return s.put(ctx, store.Batch{
		ResourceVersion: batch.ResourceVersion, Listing: batch.Listing, SyncedAt: batch.SyncedAt, Incomplete: batch.Incomplete,
	})
}

func (s *stream) put(ctx context.Context, batch store.Batch) error {
	return s.keepTrying(ctx, func() error {
		return s.limiter.write(ctx, func() error { return s.store.Write(ctx, s.target, batch) })
	})
}

// replace has something else take the place of an object that the database refuses, so that its former state is not served as the current
// one.
func (s *stream) replace(ctx context.Context, alone store.Batch, why error) error {
	change := alone.Changes[0]
	s.refused(change.Object, why)
	s.saveStatus(ctx)
	for _, instead := range []store.Change{refusedObject(s.cluster, s.kind, change.Object, why), {Object: change.Object, Deleted: true}} {
		alone.Changes = []store.Change{instead}
		if err := s.put(ctx, alone); !isRefusedByStore(err) {
			return err
		}
	}
	return nil // the database cannot have an object of a name that it refuses
}

// refused notes an object that is not stored.
func (s *stream) refused(o store.Object, err error) {
	objectsRefused.Inc()
	name, why := shortened(o.Namespace+"/"+o.Name, maxMessage), shortened(err.Error(), maxMessage)
	s.refusedObjects.log(func(others int) {
		klog.InfoS("An object is refused", "cluster", s.cluster, "resource", s.resource, "object", name, "reason", why, "others", others)
	})
	s.set(func(status *Status) {
		refused := map[string]string{name: why}
		for other, why := range status.Refused { // the map that others may read stays as it is
			if len(refused) < maxRefused {
				refused[other] = why
			}
		}
		status.Refused = refused
	})
}

// refusals bounds the lines about refused objects: one in a minute, which says how many others there were since the last one.
type refusals struct {
	mu     sync.Mutex
	last   time.Time
	others int
}

func (r *refusals) log(line func(others int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.last) < time.Minute {
		r.others++
		return
	}
	line(r.others)
	r.last, r.others = time.Now(), 0
}
