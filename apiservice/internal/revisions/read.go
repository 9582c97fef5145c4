// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// copyTo sets an object of the same type.
func (e *entry) copyTo(out runtime.Object) error {
	to, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("the output object: %w", err)
	}
	from := reflect.ValueOf(e.object.DeepCopyObject()).Elem()
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("the output object is a %s, and the stored one a %s", to.Type(), from.Type())
	}
	to.Set(from)
	return nil
}

// notOlderThan returns an error if a revision that a client has seen is still to come.
func (s *Store) notOlderThan(version string, revision int64) error {
	if version == "" {
		return nil
	}
	minimum, err := s.versioner.ParseResourceVersion(version)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if minimum > uint64(revision) {
		return storage.NewTooLargeResourceVersionError(minimum, uint64(revision), 0)
	}
	return nil
}

// Get implements storage.Interface.
func (s *Store) Get(_ context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	objects, revision, err := s.at(0)
	if err != nil {
		return err
	}
	if err := s.notOlderThan(opts.ResourceVersion, revision); err != nil {
		return err
	}
	found, ok := objects.Get(&entry{key: key})
	switch {
	case ok:
		return found.copyTo(out)
	case opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	}
	return storage.NewKeyNotFoundError(key, 0)
}

// errCompacted says that the objects of a revision are forgotten.
var errCompacted = apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")

// at returns the objects of a revision, which do not change any more. It is the current one if 0.
func (s *Store) at(revision int64) (*tree, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, 0, errClosed
	case revision > s.current:
		return nil, 0, storage.NewTooLargeResourceVersionError(uint64(revision), uint64(s.current), 0)
	case revision != 0 && revision < s.compacted:
		return nil, 0, errCompacted
	case revision == 0:
		revision = s.current
	case !s.gave(revision):
		return nil, 0, errCompacted
	}
	if later := s.after(revision); later > 0 {
		return s.history[later-1].after, revision, nil
	}
	return s.base, revision, nil
}

// gave reports whether a revision that is not forgotten is one of this store. Others are of a replica with another history. The caller has
// the lock.
func (s *Store) gave(revision int64) bool {
	i := s.after(revision)
	return revision == s.compacted || i > 0 && s.history[i-1].revision == revision
}

// after returns the index of the first change after a revision.
func (s *Store) after(revision int64) int {
	i, _ := slices.BinarySearchFunc(s.history, revision+1, func(c change, r int64) int { return cmp.Compare(c.revision, r) })
	return i
}

// GetList implements storage.Interface.
func (s *Store) GetList(_ context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	v, err := conversion.EnforcePtr(items)
	if err != nil || v.Kind() != reflect.Slice {
		return fmt.Errorf("the items of %T are no slice: %w", list, err)
	}
	revision, start, err := storage.ValidateListOptions(key, s.versioner, opts)
	if err != nil {
		return err
	}
	objects, revision, err := s.at(revision)
	if errors.Is(err, errCompacted) && opts.Predicate.Continue != "" {
		return expiredPage(start, key)
	}
	if err != nil {
		return err
	}
	if err := s.notOlderThan(opts.ResourceVersion, revision); err != nil {
		return err
	}
	p := page{opts: opts, items: v}
	if v.IsNil() {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	objects.AscendGreaterOrEqual(&entry{key: max(start, key)}, func(e *entry) bool {
		return belongs(e.key, key, opts.Recursive) && p.add(e)
	})
	if p.err != nil {
		return p.err
	}
	next, remaining, err := storage.PrepareContinueToken(p.last, key, revision, p.seen, p.more, opts)
	if err != nil {
		return err
	}
	return s.versioner.UpdateList(list, uint64(revision), next, remaining)
}

// belongs reports whether an object is one that a request for a key, or for all keys below it, is about.
func belongs(object, key string, recursive bool) bool {
	if recursive {
		return strings.HasPrefix(object, key)
	}
	return object == key
}

// page is a part of a list.
type page struct {
	opts  storage.ListOptions
	items reflect.Value
	// last is the key of the last object in it. more reports that others follow, and seen counts all from its beginning, if that is needed.
	last string
	seen int64
	more bool
	err  error
}

// add adds an object that matches. It returns false if no more are needed.
func (p *page) add(e *entry) bool {
	limit := p.opts.Predicate.Limit
	p.seen++
	if limit > 0 && int64(p.items.Len()) >= limit {
		p.more = true
		return p.opts.Predicate.Empty() // PrepareContinueToken has the number of those that remain
	}
	p.last = e.key
	matches, err := p.opts.Predicate.Matches(e.object)
	if err != nil {
		p.err = err
		return false
	}
	if matches {
		p.items.Set(reflect.Append(p.items, reflect.ValueOf(e.object.DeepCopyObject()).Elem()))
	}
	return true
}

// expiredPage is the error for a page of a revision that is forgotten. As with etcd, it has a token for the rest of the list as it is now.
func expiredPage(start, prefix string) error {
	token, err := storage.EncodeContinue(start, prefix, -1)
	if err != nil {
		return err
	}
	expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"List again without it, or go on with the token of this answer: objects that have changed since the first page may be missing or old.")
	expired.ErrStatus.ListMeta.Continue = token
	return expired
}

// Stats implements storage.Interface.
func (s *Store) Stats(context.Context) (storage.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := storage.Stats{ObjectCount: int64(s.objects.Len())}
	if stats.ObjectCount > 0 {
		stats.EstimatedAverageObjectSizeBytes = s.size / stats.ObjectCount
	}
	return stats, nil
}

// ReadinessCheck implements storage.Interface.
func (s *Store) ReadinessCheck() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return nil
}

// RequestWatchProgress implements storage.Interface. Watches of this storage are never behind.
func (s *Store) RequestWatchProgress(context.Context) error { return nil }

// GetCurrentResourceVersion implements storage.Interface.
func (s *Store) GetCurrentResourceVersion(context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(s.current), nil
}

// EnableResourceSizeEstimation implements storage.Interface. The store knows the sizes.
func (s *Store) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface.
func (s *Store) CompactRevision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compacted
}
