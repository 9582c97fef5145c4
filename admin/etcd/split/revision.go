// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

const (
	// raiseKey is written repeatedly, because only writes raise the revision of a running etcd.
	raiseKey = recordKey + "/revision"
	// writers is how many writes run at a time. etcd writes them to disk together.
	writers = 256
	// Farthest is the most by which to raise a revision. More would take hours.
	Farthest = 100_000_000
	// progressPeriod is how often a step reports progress.
	progressPeriod = 5 * time.Second
)

// raise raises the revision of the target above that of the source.
func (s *split) raise(ctx context.Context, above int64) error {
	now, err := revision(ctx, s.target)
	if err != nil {
		return err
	}
	if now > above {
		return nil
	}
	if above-now > Farthest {
		return fmt.Errorf("the revision of the target is %d, and that of the source %d, as after a restore: "+
			"to raise it by writing would take hours, "+
			"so make the target anew of a snapshot of itself, with a later revision (tripod etcd snapshot, "+
			"tripod etcd restore --bump-revision)", now, above)
	}
	s.Progress(fmt.Sprintf("raising the revision of the target from %d above %d", now, above))
	for now <= above {
		if err := s.writeUntil(ctx, now, min(above+1, now+etcdclient.RaiseKept)); err != nil {
			return err
		}
		if now, err = revision(ctx, s.target); err != nil {
			return err
		}
		forget := now
		if s.inUse {
			forget -= etcdclient.RaiseKept
		}
		if forget <= 0 {
			continue
		}
		if err := etcdclient.Compact(ctx, s.target, forget); err != nil {
			return fmt.Errorf("the target: %w", err)
		}
	}
	if _, err := s.target.Delete(ctx, raiseKey); err != nil {
		return fmt.Errorf("cannot write to the target: %w", err)
	}
	return nil
}

// writeUntil writes until etcd reaches a revision.
func (s *split) writeUntil(ctx context.Context, from, to int64) error {
	reached := atomic.Int64{}
	reached.Store(from)
	stop := s.reportProgress(func() string {
		return fmt.Sprintf("the revision of the target is %d", reached.Load())
	})
	defer stop()
	if err := etcdclient.WriteUntil(ctx, s.target, raiseKey, to, &reached); err != nil {
		return fmt.Errorf("cannot write to the target: %w", err)
	}
	return nil
}

// reportProgress reports the progress of a step until stop is called.
func (s *split) reportProgress(line func() string) (stop func()) {
	ticker, done := time.NewTicker(progressPeriod), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				s.Progress(line())
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}
