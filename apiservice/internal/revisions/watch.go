// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
)

// bookmarkInterval is how often a watch that wants bookmarks gets one. Kubernetes' watch cache sends one a minute, too.
const bookmarkInterval = time.Minute

// watcher is a watch.Interface.
type watcher struct {
	store     *Store
	key       string
	opts      storage.ListOptions
	predicate storage.SelectionPredicate
	// revision is the latest that was sent, or that had nothing to send.
	revision int64
	initial  *tree
	cancel   context.CancelFunc
	result   chan watch.Event
}

// Watch implements storage.Interface.
func (s *Store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	version, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		store: s, key: key, opts: opts, predicate: opts.Predicate, revision: int64(version), result: make(chan watch.Event),
	}
	if w.predicate.Empty() {
		w.predicate.Label, w.predicate.Field = storage.Everything.Label, storage.Everything.Field
	}
	begin, revision, err := s.at(0)
	if err != nil {
		return nil, err
	}
	var refused error
	switch wantsInitial := version == 0; {
	case opts.SendInitialEvents != nil && *opts.SendInitialEvents, opts.SendInitialEvents == nil && wantsInitial:
		refused = s.notOlderThan(opts.ResourceVersion, revision)
		w.initial, w.revision = begin, revision
	case version == 0:
		w.revision = revision
	case w.revision > revision:
		// The revision is of a storage with another history. Its events would be missing.
		refused = errExpired
	}
	ctx, w.cancel = context.WithCancel(ctx)
	go w.run(ctx, refused)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

var errExpired = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// run sends events until the client, the store or an error ends the watch.
func (w *watcher) run(ctx context.Context, err error) {
	defer close(w.result)
	defer w.cancel()
	if err == nil && w.initial != nil {
		err = w.sendInitial(ctx)
	}
	var bookmarks <-chan time.Time
	if w.predicate.AllowWatchBookmarks || w.opts.ProgressNotify {
		ticker := time.NewTicker(bookmarkInterval)
		defer ticker.Stop()
		bookmarks = ticker.C
	}
	for err == nil {
		var c *change
		var changed <-chan struct{}
		if c, changed, err = w.store.next(w.revision); err != nil {
			break
		}
		if c != nil {
			w.revision = c.revision
			err = w.sendChange(ctx, *c)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-bookmarks:
			err = w.sendBookmark(ctx, false)
		}
	}
	w.initial = nil // the client may not read the error for long
	if ctx.Err() != nil || errors.Is(err, errClosed) {
		return // the client resumes at another replica
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	failure := status.Status()
	select {
	case <-ctx.Done():
	case w.result <- watch.Event{Type: watch.Error, Object: &failure}:
	}
}

// next returns the first change after a revision. If there is none yet, it returns what is closed by the next one.
func (s *Store) next(revision int64) (*change, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follows(revision); err != nil {
		return nil, nil, err
	}
	if i := s.after(revision); i < len(s.history) {
		c := s.history[i]
		c.after = nil // the watch needs no other objects, and keeps none of them
		return &c, nil, nil
	}
	return nil, s.changed.Next(), nil
}

// follows returns an error if a watch cannot go on from a revision. The caller has the lock.
func (s *Store) follows(revision int64) error {
	switch {
	case s.closed:
		return errClosed
	case revision < s.compacted || revision > s.current || !s.gave(revision):
		return errExpired
	}
	return nil
}

// remembers returns an error if a watch that waits for its client cannot go on from a revision, and else what is closed by the next change.
func (s *Store) remembers(revision int64) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed.Next(), s.follows(revision)
}

// sendInitial sends the objects that exist, and the bookmark after them if the client asks for it.
func (w *watcher) sendInitial(ctx context.Context) error {
	var err error
	w.initial.AscendGreaterOrEqual(&entry{key: w.key}, func(e *entry) bool {
		if !belongs(e.key, w.key, w.opts.Recursive) {
			return false
		}
		var matches bool
		if matches, err = w.predicate.Matches(e.object); err != nil || !matches {
			return err == nil
		}
		err = w.send(ctx, watch.Event{Type: watch.Added, Object: e.object.DeepCopyObject()})
		return err == nil
	})
	w.initial = nil
	if err != nil || w.opts.SendInitialEvents == nil || !w.predicate.AllowWatchBookmarks {
		return err
	}
	return w.sendBookmark(ctx, true)
}

func (w *watcher) sendBookmark(ctx context.Context, endsInitial bool) error {
	object := w.store.resource.New()
	if err := w.store.versioner.UpdateObject(object, uint64(w.revision)); err != nil {
		return err
	}
	if endsInitial {
		if err := storage.AnnotateInitialEventsEndBookmark(object); err != nil {
			return err
		}
	}
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: object})
}

// sendChange sends what a change means to a client that sees only objects that match.
func (w *watcher) sendChange(ctx context.Context, c change) error {
	if c.old == nil && c.current == nil || !belongs(c.key(), w.key, w.opts.Recursive) {
		return nil
	}
	var matched, matches bool
	var err error
	if c.old != nil {
		if matched, err = w.predicate.Matches(c.old.object); err != nil {
			return fmt.Errorf("match %s: %w", c.key(), err)
		}
	}
	if c.current != nil {
		if matches, err = w.predicate.Matches(c.current.object); err != nil {
			return fmt.Errorf("match %s: %w", c.key(), err)
		}
	}
	var event watch.Event
	switch {
	case matches && matched:
		event = watch.Event{Type: watch.Modified, Object: c.current.object.DeepCopyObject()}
	case matches:
		event = watch.Event{Type: watch.Added, Object: c.current.object.DeepCopyObject()}
	case matched:
		last := w.store.resource.New()
		if err := w.store.deleted(c, last); err != nil {
			return err
		}
		event = watch.Event{Type: watch.Deleted, Object: last}
	default:
		return nil
	}
	return w.send(ctx, event)
}

func (c change) key() string {
	if c.current != nil {
		return c.current.key
	}
	return c.old.key
}

// send waits until the client takes an event, or the watch ends. It ends if the client takes nothing until the store forgets what the watch
// goes on from, so that the watch does not keep that.
func (w *watcher) send(ctx context.Context, event watch.Event) error {
	for {
		changed, err := w.store.remembers(w.revision)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case w.result <- event:
			return nil
		case <-changed:
		}
	}
}
