// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watchcache keeps the newest history of the database in memory, for watches.
//
// A replica reads the newest transitions once, whatever number of watches it has, and keeps some of them in memory. A watch asks for what
// follows a revision. If memory does not go back that far, the watch reads the database. So a slow watch takes no memory, and misses
// nothing.
package watchcache

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/broadcast"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
)

// ErrReplaced says that the database is not the one that it was: it was restored from a backup. Watches have to begin again.
var ErrReplaced = errors.New("the database has gone back to an earlier state")

// ErrAway says that the database does not answer.
var ErrAway = errors.New("the database does not answer")

// Memory is that of the changes that are kept for watches, in bytes.
const Memory = 32 << 20

const (
	// interval is the time between two looks at the database.
	interval = 50 * time.Millisecond
	// awayAfter is how long the database may not answer until watches end.
	awayAfter = 10 * time.Second
	// nextBytes bounds what Next returns from memory, which a slow watch keeps when memory has forgotten it.
	nextBytes = 128 << 10
)

// Cache follows the history. Make one with New.
type Cache struct {
	store *store.Store
	// keptBytes and awayAfter are Memory and the constant, except in tests.
	keptBytes int
	awayAfter time.Duration

	mu sync.Mutex
	// watches counts the subscriptions to each kind.
	watches map[int64]int
	// end stops the reader. It is nil if none runs.
	end context.CancelFunc
	// closed is set once none may run any more.
	closed bool
	// done is closed when the last reader has ended.
	done chan struct{}

	// since has the revisions from which on the kinds are read.
	since map[int64]int64
	// kept are all transitions of these kinds after floor and up to top.
	kept       []*history.Transition
	size       int
	floor, top int64
	// rights is the last change of rights in any cluster at top, or later.
	rights int64
	// changed wakes watches when there is news.
	changed broadcast.Broadcast
	// replaced counts how often the database has gone back.
	replaced int
	// away is set if the database does not answer.
	away bool
}

// New returns a watch cache for a store. It reads nothing without a subscriber. Close it before the store.
func New(s *store.Store) *Cache {
	return &Cache{
		store: s, keptBytes: Memory, awayAfter: awayAfter,
		watches: map[int64]int{}, since: map[int64]int64{}, top: -1,
	}
}

// Close stops the reader, and waits until it has ended. Watches get ErrAway after that.
func (f *Cache) Close() {
	f.mu.Lock()
	f.closed = true
	if f.end != nil {
		f.end()
	}
	done := f.done
	f.changed.Send()
	f.mu.Unlock()
	if done != nil {
		<-done
	}
}

// Subscription is a watch of some kinds.
type Subscription struct {
	cache    *Cache
	kinds    []int64
	replaced int
}

// Subscribe begins a watch of some kinds. Call Close at its end.
func (f *Cache) Subscribe(kinds []int64) *Subscription {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, kind := range kinds {
		f.watches[kind]++
	}
	if f.end == nil && !f.closed {
		f.start()
	}
	return &Subscription{cache: f, kinds: kinds, replaced: f.replaced}
}

// Close ends a watch. The last one ends the reading.
func (s *Subscription) Close() {
	f := s.cache
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, kind := range s.kinds {
		if f.watches[kind]--; f.watches[kind] == 0 {
			delete(f.watches, kind)
		}
	}
	if len(f.watches) == 0 && f.end != nil {
		f.end()
		f.end = nil
	}
}

// start starts a reader, after the last one has ended.
func (f *Cache) start() {
	ctx, cancel := context.WithCancel(context.Background())
	before, done := f.done, make(chan struct{})
	f.end, f.done, f.away = cancel, done, false
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		f.run(ctx)
	}()
}

// Acquire returns when the database may be read, with the function to call after the read.
type Acquire func(context.Context) (release func(), err error)

// Next returns what follows a revision, but not more than about nextBytes: ask again from UpTo. If that is nothing, wait for the channel,
// and ask again. What is not of interest may be among it, but Next does not read that from the database. Next returns history.ErrPruned,
// history.ErrFuture, ErrReplaced or ErrAway when the watch has to end, and may return any error of the database, or of the bounds.
//
// It calls acquire before it reads the database.
func (s *Subscription) Next(
	ctx context.Context, after int64, about *history.Interest, bounds database.Bounds, acquire Acquire,
) (h history.History, news <-chan struct{}, err error) {
	h, news, known, err := s.kept(after)
	if known || err != nil {
		if err == nil && bounds.Charge != nil && len(h.Transitions) > 0 {
			err = bounds.Charge(sizeOf(h.Transitions))
		}
		return h, news, err
	}
	release, err := acquire(ctx)
	if err != nil {
		return h, news, err
	}
	defer release()
	h, err = s.cache.store.Within(bounds).Transitions(ctx, after, s.kinds, about)
	return h, news, err
}

func sizeOf(transitions []*history.Transition) (bytes int64) {
	for _, t := range transitions {
		bytes += int64(t.Size())
	}
	return bytes
}

// kept returns what memory knows.
func (s *Subscription) kept(after int64) (h history.History, news <-chan struct{}, known bool, err error) {
	f := s.cache
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.replaced != f.replaced:
		return h, nil, false, ErrReplaced
	case f.away || f.closed:
		return h, nil, false, ErrAway
	}
	known = f.top >= after && after >= f.floor // a watch that was at the database may be ahead
	for _, kind := range s.kinds {
		since, read := f.since[kind]
		known = known && read && after >= since
	}
	if !known {
		return h, f.changed.Next(), false, nil
	}
	h.UpTo, h.Rights = f.top, f.rights
	size := 0
	first := sort.Search(len(f.kept), func(i int) bool { return f.kept[i].Revision > after })
	for _, t := range f.kept[first:] {
		if !slices.Contains(s.kinds, t.KindID) {
			continue
		}
		if size > nextBytes {
			h.UpTo = h.Transitions[len(h.Transitions)-1].Revision
			break
		}
		size += t.Size()
		h.Transitions = append(h.Transitions, t)
	}
	return h, f.changed.Next(), true, nil
}

// run reads until the context ends.
func (f *Cache) run(ctx context.Context) {
	lastRead, begun := time.Now(), false
	timer := time.NewTicker(interval)
	defer timer.Stop()
	for {
		err := f.read(ctx, begun)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			lastRead, begun = time.Now(), true
		} else {
			klog.V(2).InfoS("The history cannot be read", "err", err)
		}
		f.setAway(time.Since(lastRead) > f.awayAfter)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

func (f *Cache) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away != away {
		f.away = away
		f.changed.Send()
	}
}

// read reads what is new. The first time, it only finds out where that begins.
func (f *Cache) read(ctx context.Context, begun bool) error {
	last, err := f.store.Revision(ctx)
	if err != nil {
		return err
	}
	f.begin(last, begun)
	for {
		from, kinds := f.position()
		if from >= last {
			return nil
		}
		h, err := f.store.Transitions(ctx, from, kinds, nil)
		switch {
		case errors.Is(err, history.ErrPruned): // the database was away for longer than the history
			f.skip(last)
			return nil
		case err != nil:
			return err
		}
		f.append(h)
	}
}

// begin sets where reading begins, also if the database has gone back.
func (f *Cache) begin(last int64, begun bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if begun && last >= f.top {
		return
	}
	if last < f.top {
		klog.InfoS("The database has gone back, so watches begin again", "from", f.top, "to", last)
		f.replaced++
	}
	f.clear(last)
	f.changed.Send()
}

// skip forgets what is in memory.
func (f *Cache) skip(to int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear(to)
	f.changed.Send()
}

func (f *Cache) clear(at int64) {
	f.since, f.kept, f.size, f.floor, f.top = map[int64]int64{}, nil, 0, at, at
}

// position returns from where on which kinds are to be read.
func (f *Cache) position() (from int64, kinds []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind := range f.since {
		if f.watches[kind] == 0 {
			delete(f.since, kind)
		}
	}
	for kind := range f.watches {
		if _, read := f.since[kind]; !read {
			f.since[kind] = f.top
		}
		kinds = append(kinds, kind)
	}
	return f.top, kinds
}

// append adds what was read.
func (f *Cache) append(h history.History) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept, f.top, f.rights = append(f.kept, h.Transitions...), h.UpTo, h.Rights
	for _, t := range h.Transitions {
		f.size += t.Size()
	}
	drop := 0
	for ; f.size > f.keptBytes && drop < len(f.kept); drop++ {
		f.size -= f.kept[drop].Size()
		f.floor = f.kept[drop].Revision
	}
	f.kept = slices.Delete(f.kept, 0, drop)
	f.changed.Send()
}
