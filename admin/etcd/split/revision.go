// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

const (
	// raiseKey is written repeatedly, because only writes raise the revision of a running etcd.
	raiseKey = recordKey + "/revision"
	// writers is how many writes run at a time. etcd writes them to disk together.
	writers = 256
	// compactAfter is how many revisions of raiseKey etcd may have to keep.
	compactAfter = 100_000
	// farthest is the most by which to raise a revision. More would take hours.
	farthest = 100_000_000
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
	if above-now > farthest {
		return fmt.Errorf("the revision of the target is %d, and that of the source %d, as after a restore: "+
			"to raise it by writing would take hours, "+
			"so make the target anew of a snapshot of itself, with a later revision (tripod etcd snapshot, "+
			"tripod etcd restore --bump-revision)", now, above)
	}
	s.Progress(fmt.Sprintf("raising the revision of the target from %d above %d", now, above))
	for now <= above {
		if err := s.writeUntil(ctx, now, min(above+1, now+compactAfter)); err != nil {
			return err
		}
		if now, err = revision(ctx, s.target); err != nil {
			return err
		}
		forget := now
		if s.inUse {
			forget -= compactAfter
		}
		if forget <= 0 {
			continue
		}
		if err := compact(ctx, s.target, forget); err != nil {
			return err
		}
	}
	if _, err := s.target.Delete(ctx, raiseKey); err != nil {
		return fmt.Errorf("cannot write to the target: %w", err)
	}
	return nil
}

// writeUntil writes until etcd reaches a revision.
func (s *split) writeUntil(ctx context.Context, from, to int64) error {
	left, reached := atomic.Int64{}, atomic.Int64{}
	left.Store(to - from)
	stop := s.reportProgress(func() string {
		return fmt.Sprintf("the revision of the target is %d", reached.Load())
	})
	defer stop()
	writing, ctx := errgroup.WithContext(ctx)
	for range writers {
		writing.Go(func() error {
			for left.Add(-1) >= 0 {
				answer, err := s.target.Put(ctx, raiseKey, "")
				if err != nil {
					return fmt.Errorf("cannot write to the target: %w", err)
				}
				reached.Store(answer.Header.GetRevision())
			}
			return nil
		})
	}
	return writing.Wait()
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

func compact(ctx context.Context, client *clientv3.Client, at int64) error {
	if _, err := client.Compact(ctx, at); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("cannot compact the target: %w", err)
	}
	return nil
}
