// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
)

const (
	// patience is how long a write or a look may take.
	patience = 10 * time.Second
	// batch is how many changes are read at once.
	batch = 500
	// compactEvery is after how many changes the oldest ones are removed from the database.
	compactEvery = 1000
)

// failure is why the database could not be read last, or nil.
type failure struct {
	last atomic.Pointer[apierrors.StatusError]
}

func (f *failure) get() error {
	if err := f.last.Load(); err != nil {
		return err
	}
	return nil
}

// set returns the error that clients get. The log has its reason.
func (f *failure) set(err error) error {
	if err == nil {
		if f.last.Swap(nil) != nil {
			klog.InfoS("The database answers again")
		}
		return nil
	}
	unavailable := apierrors.NewServiceUnavailable("the objects of the service cannot be read from its database: try again later")
	if f.last.Swap(unavailable) == nil {
		klog.ErrorS(err, "The database cannot be read. Requests get 503, unless they take old objects")
	}
	return unavailable
}

// begin reads all objects.
func (s *store) begin(ctx context.Context) error {
	at, objects, err := s.log.objects(ctx)
	if err != nil {
		return err
	}
	if err := s.Begin(at, objects); err != nil {
		return err
	}
	return s.follow(ctx)
}

// sync has the store apply what others have written.
func (s *store) sync(client context.Context) error {
	ctx, cancel := context.WithTimeout(client, patience)
	defer cancel()
	current, _, err := s.log.state(ctx)
	if err == nil && current != s.Current() {
		s.Exclusively(func() { err = s.follow(ctx) })
	}
	if err != nil && client.Err() != nil {
		return err // the client is gone, which says nothing of the database
	}
	return s.failed.set(err)
}

// follow applies all changes that the database has by now. Nothing else writes meanwhile.
func (s *store) follow(ctx context.Context) error {
	current, compacted, err := s.log.state(ctx)
	if err != nil {
		return err
	}
	if at := s.Current(); at < compacted || at > current { // the database may have been restored from a backup
		at, objects, err := s.log.objects(ctx)
		if err != nil {
			return err
		}
		if err := s.Begin(at, objects); err != nil {
			return err
		}
	}
	return s.followTo(ctx, current)
}

// followTo applies the changes up to a revision.
func (s *store) followTo(ctx context.Context, current int64) error {
	for s.Current() < current {
		rows, err := s.log.changes(ctx, s.Current(), current, batch)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := s.Follow(row); err != nil {
				return fmt.Errorf("revision %d of %s: %w", row.Revision, s.log.resource, err)
			}
		}
		if len(rows) < batch && s.Current() < current {
			s.Skip(current)
		}
	}
	return nil
}

// write makes a change. It is a [revisions.Write]. It ends with an answer of the database, also if the client goes meanwhile.
func (s *store) write(key string, before int64, data []byte) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	revision, err := s.log.append(ctx, key, before, data)
	if err != nil {
		return 0, s.failed.set(err)
	}
	if revision == 0 {
		if err := s.follow(ctx); err != nil {
			return 0, s.failed.set(err)
		}
		return 0, revisions.ErrConflict
	}
	if _, compacted, err := s.log.state(ctx); err != nil || s.Current() < compacted || s.Current() > revision {
		if err := s.follow(ctx); err != nil {
			return 0, s.failed.set(err)
		}
		return revision, nil
	}
	if err := s.followTo(ctx, revision); err != nil {
		return 0, s.failed.set(err)
	}
	return revision, nil
}

// poll looks for changes of others, and removes old ones, until the service ends.
func (s *store) poll(ctx context.Context) {
	ticker := time.NewTicker(s.options.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.sync(ctx) != nil {
			continue
		}
		_, compacted, err := s.log.state(ctx)
		if oldest := s.Current() - int64(s.options.HistoryChanges); err == nil && oldest > compacted+compactEvery {
			err = s.log.compact(ctx, oldest, false)
		}
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Old changes cannot be removed from the database", "resource", s.log.resource)
		}
	}
}
