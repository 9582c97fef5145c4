// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
	"github.com/tripod-k8s/tripod/apiservice/storages"
)

const (
	// waitTimeout is how long a write, a look or a compaction may take.
	waitTimeout = 10 * time.Second
	// batch is how many changes are read at once.
	batch = 500
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
	if err := s.restart(ctx); err != nil {
		return err
	}
	return s.follow(ctx, math.MaxInt64)
}

// restart makes the store what the database was at the earliest revision that its changes reach back to.
func (s *store) restart(ctx context.Context) error {
	at, objects, err := s.log.objects(ctx)
	if err != nil {
		return err
	}
	return s.Begin(at, objects)
}

// sync has the store apply what others have written.
func (s *store) sync(client context.Context) error {
	ctx, cancel := context.WithTimeout(client, waitTimeout)
	defer cancel()
	current, _, err := s.log.state(ctx)
	if err == nil && current != s.Current() {
		err = s.exclusively(ctx, s.latest)
	}
	return s.answered(client, err)
}

// latest applies all changes that the database has by now.
func (s *store) latest(ctx context.Context) error { return s.follow(ctx, math.MaxInt64) }

// exclusively calls a function while nothing else writes.
func (s *store) exclusively(ctx context.Context, f func(context.Context) error) error {
	var err error
	if waited := s.ExclusivelyIn(ctx, func() { err = f(ctx) }); waited != nil {
		return waited
	}
	return err
}

// follow applies the changes of the database up to a revision. Nothing else writes meanwhile. It begins anew if the store is not what the
// database was: the database has removed changes that the store has not seen, or has lost some that it has, by a restore or a failover.
func (s *store) follow(ctx context.Context, last int64) error {
	for restarted := false; ; {
		at := s.Current()
		compacted, rows, err := s.log.changes(ctx, at, max(at, last), batch)
		if err != nil {
			return err
		}
		has := len(rows) > 0 && rows[0].Revision == at
		if at < compacted || at > compacted && !has {
			if restarted && at > compacted {
				return fmt.Errorf("revision %d of %s has gone again", at, s.log.resource)
			}
			if err := s.restart(ctx); err != nil {
				return err
			}
			restarted = true
			continue
		}
		full := len(rows) == batch
		if has {
			rows = rows[1:]
		}
		for _, row := range rows {
			if err := s.Follow(row); err != nil {
				return fmt.Errorf("revision %d of %s: %w", row.Revision, s.log.resource, err)
			}
		}
		s.followed.Add(int64(len(rows)))
		if !full {
			return nil
		}
	}
}

// write makes a change. It is a [revisions.Write]. It ends with an answer of the database, also if the client goes meanwhile.
func (s *store) write(client context.Context, key string, before int64, data []byte) (int64, error) {
	deadline, _ := client.Deadline()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(client), deadline)
	defer cancel()
	revision, err := s.log.append(ctx, key, before, data)
	if errors.Is(err, errRefused) {
		return 0, storages.ErrorClosed(client, s.resource)
	}
	if err != nil {
		return 0, s.unwritten(client, ctx, err)
	}
	if revision == 0 {
		err := s.latest(ctx)
		if err == nil && s.Revision(key) == before { // no change says so, so the copy is wrong
			err = s.begin(ctx)
		}
		if err != nil {
			return 0, s.unwritten(client, ctx, err)
		}
		return 0, revisions.ErrConflict
	}
	if err := s.follow(ctx, revision); err != nil {
		return 0, s.unwritten(client, ctx, err)
	}
	return revision, nil
}

// unwritten returns the error of a write that failed.
func (s *store) unwritten(client, writing context.Context, err error) error {
	if writing.Err() != nil {
		<-client.Done() // the deadline is the same
	}
	return s.answered(client, err)
}

// answered notes whether the database answers, and returns the error for a client. If the time of the client was over first, the error says
// nothing of the database, and must not cost others their answers.
func (s *store) answered(client context.Context, err error) error {
	if err != nil && client.Err() != nil && !errors.Is(context.Cause(client), revisions.ErrSlow) {
		return err
	}
	return s.failed.set(err)
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
		if err := s.shorten(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Old changes cannot be removed from the database", "resource", s.log.resource)
		}
	}
}

// surplus is after how many changes more than are kept the oldest ones are removed from the database.
func surplus(kept int) int { return max(kept/10, 1) }

// shorten removes old changes from the database, if many have come since it was called last.
func (s *store) shorten(ctx context.Context) error {
	kept := s.options.HistoryChanges
	followed := s.followed.Load()
	if followed < int64(surplus(kept)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	oldest, err := s.log.oldest(ctx, kept)
	if err == nil && oldest > 0 {
		err = s.log.compact(ctx, oldest)
	}
	if err == nil {
		s.followed.Add(-followed)
	}
	return err
}
