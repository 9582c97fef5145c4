// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

const (
	// RaiseMargin is how many revisions [Raise] goes beyond another one.
	RaiseMargin = 1000
	// RaiseLeast is how many of these have to be left.
	RaiseLeast = 100
	// RaiseKept is how many of the revisions that writes only raise an etcd in use has to keep. A hundred thousand take about 20 MB.
	RaiseKept = 100_000
	// writers is how many writes run at a time. etcd writes them to disk together.
	writers = 256
)

// Raise raises the revision of an etcd well above another one, unless it is there, and returns it.
func Raise(ctx context.Context, etcd clientv3.KV, key string, above int64) (int64, error) {
	answer, err := etcd.Put(ctx, key, "")
	if err != nil {
		return 0, fmt.Errorf("the revision of etcd cannot be raised above %d: %w", above, err)
	}
	reached := atomic.Int64{}
	reached.Store(answer.Header.GetRevision())
	if reached.Load() <= above+RaiseLeast {
		err = WriteUntil(ctx, etcd, key, above+RaiseMargin+1, &reached)
	}
	return reached.Load(), err
}

// WriteUntil writes a key until etcd reaches a revision: only writes raise it. The one that it has reached can be read meanwhile.
func WriteUntil(ctx context.Context, etcd clientv3.KV, key string, to int64, reached *atomic.Int64) error {
	writing, ctx := errgroup.WithContext(ctx)
	for range writers {
		writing.Go(func() error {
			for reached.Load() < to {
				answer, err := etcd.Put(ctx, key, "")
				if err != nil {
					return fmt.Errorf("the revision of etcd cannot be raised from %d to %d: %w", reached.Load(), to, err)
				}
				rise(reached, answer.Header.GetRevision())
			}
			return nil
		})
	}
	return writing.Wait()
}

// rise makes a number another one, unless it is larger.
func rise(reached *atomic.Int64, now int64) {
	for is := reached.Load(); is < now; is = reached.Load() {
		if reached.CompareAndSwap(is, now) {
			return
		}
	}
}

// Compact has etcd forget what is older than a revision, unless it has.
func Compact(ctx context.Context, etcd clientv3.KV, at int64) error {
	if _, err := etcd.Compact(ctx, at); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("etcd cannot be compacted: %w", err)
	}
	return nil
}
