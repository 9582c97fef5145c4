// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"fmt"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

const (
	// RaiseMargin is how many revisions [Raise] goes beyond another one.
	RaiseMargin = 1000
	// RaiseLeast is how many of these have to be left.
	RaiseLeast = 100
	// writers is how many writes run at a time. etcd writes them to disk together.
	writers = 128
)

// Raise raises the revision of an etcd above another one, and returns it. Only writes raise it, here those of a key.
func Raise(ctx context.Context, etcd clientv3.KV, key string, above int64) (int64, error) {
	reached := atomic.Int64{}
	write := func(ctx context.Context) error {
		answer, err := etcd.Put(ctx, key, "")
		if err != nil {
			return fmt.Errorf("the revision of etcd cannot be raised from %d above %d: %w", reached.Load(), above, err)
		}
		for is, now := reached.Load(), answer.Header.GetRevision(); is < now; is = reached.Load() {
			if reached.CompareAndSwap(is, now) {
				break
			}
		}
		return nil
	}
	if err := write(ctx); err != nil || reached.Load() > above+RaiseLeast {
		return reached.Load(), err
	}
	writing, ctx := errgroup.WithContext(ctx)
	for range writers {
		writing.Go(func() error {
			for reached.Load() <= above+RaiseMargin {
				if err := write(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := writing.Wait()
	return reached.Load(), err
}
