// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"context"
	"fmt"

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// KeepGate keeps the gate of a store, as it will be. If it returns an error, the gate stays as it is.
type KeepGate func(move string) error

// KeepGateBy has a function keep the gate, which is as move now. It is called before anything else uses the store.
func (s *Store) KeepGateBy(keep KeepGate, move string) { s.keepGate, s.gate = keep, move }

var _ storages.Gated = &Store{}

// Gate implements storages.Gated. A copy of a database has the gate there.
func (s *Store) Gate(ctx context.Context) (string, error) {
	if err := s.lock(ctx); err != nil {
		return "", err
	}
	defer s.unlock()
	return s.gate, nil
}

// SetGate implements storages.Gated. It waits until the write that is under way is done.
func (s *Store) SetGate(ctx context.Context, from, to string) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.gate != from {
		return storages.ErrGate
	}
	if s.keepGate != nil {
		if err := s.keepGate(to); err != nil {
			return err
		}
	}
	s.gate = to
	return nil
}

// Raise implements storages.Gated. Revisions are times in nanoseconds, which no etcd comes to, and so are all of the history of a store.
func (s *Store) Raise(ctx context.Context, move string, above int64) (int64, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.unlock()
	if s.gate != move {
		return 0, storages.ErrGate
	}
	return s.RaisedAbove(above)
}

// RaisedAbove returns the revision of the store if it has none that another server has, up to that.
func (s *Store) RaisedAbove(above int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if above >= s.compacted {
		return 0, fmt.Errorf("the resourceVersion %d of another server is none of an etcd", above)
	}
	return s.current, nil
}
