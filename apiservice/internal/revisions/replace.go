// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Replace makes objects, by their keys, all that the store has. Each that differs is a change of its own, but no reader sees some of them
// only. If one of the objects cannot be encoded, or there is no room for all, nothing changes. Replace changes the objects.
func (s *Store) Replace(objects map[string]runtime.Object) error {
	s.writing <- struct{}{}
	defer s.unlock()
	now, _, err := s.at(0)
	if err != nil {
		return err
	}
	stays := map[string]bool{}
	type pair struct{ old, next *entry }
	var written, pairs []pair
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		stored, err := s.key(key, false)
		if err != nil {
			return err
		}
		stays[stored] = true
		data, err := s.encode(objects[key])
		if err != nil {
			return fmt.Errorf("encode %s: %w", key, err)
		}
		old, _ := now.Get(&entry{key: stored})
		if old != nil && bytes.Equal(old.data, data) {
			continue
		}
		next, err := s.prepare(stored, data)
		if err != nil {
			return fmt.Errorf("decode %s: %w", key, err)
		}
		written = append(written, pair{old, next})
	}
	now.Ascend(func(e *entry) bool {
		if !stays[e.key] {
			pairs = append(pairs, pair{old: e})
		}
		return true
	})
	pairs = append(pairs, written...) // deletions come first
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	size := s.size
	for _, p := range pairs {
		size += p.next.bytes() - p.old.bytes()
	}
	if size > s.options.MaxBytes && size > s.size {
		return s.full()
	}
	for _, p := range pairs {
		s.apply(Following(s.current), p.old, p.next)
	}
	s.trim(len(pairs))
	if len(pairs) > 0 {
		s.changed.Send()
	}
	return nil
}

// Exclusively calls a function while nothing else writes.
func (s *Store) Exclusively(f func()) {
	s.writing <- struct{}{}
	defer s.unlock()
	f()
}

// ExclusivelyIn is Exclusively, unless the context ends before its turn comes.
func (s *Store) ExclusivelyIn(ctx context.Context, f func()) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	f()
	return nil
}

// Set makes an object, which it changes, that of a key, or deletes that if it is nil. It keeps nothing: it is for what is kept already.
// Only a Keep and what Exclusively calls call it.
func (s *Store) Set(key string, object runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	old, err := s.look(key)
	if err != nil {
		return err
	}
	var next *entry
	if object != nil {
		data, err := s.encode(object)
		if err != nil {
			return err
		}
		if old != nil && bytes.Equal(old.data, data) {
			return nil
		}
		if next, err = s.prepare(key, data); err != nil {
			return err
		}
	}
	if old == nil && next == nil {
		return nil
	}
	if err := s.accepts(key, old, next); err != nil {
		return err
	}
	s.put(old, next)
	return nil
}

// Object returns a copy of the latest revision of an object, or nil.
func (s *Store) Object(key string) runtime.Object {
	if found, err := s.look(key); err == nil && found != nil {
		return found.object.DeepCopyObject()
	}
	return nil
}
