// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// readerCount is how many clients read all the time, over so many connections.
const (
	readerCount = 64
	connections = 4
)

// readers read an object, and again as soon as they have it.
type readers struct {
	count   atomic.Int64
	failed  atomic.Pointer[error]
	cancel  context.CancelFunc
	reading sync.WaitGroup
}

// readAllTheTime starts readers that go through one aggregator.
func readAllTheTime(t testing.TB, path string) *readers {
	t.Helper()
	c := traffic.NewClient(t, fleet.Cluster.Admin(), connections)
	ctx, cancel := context.WithCancel(t.Context())
	r := &readers{cancel: cancel}
	t.Cleanup(func() {
		cancel()
		r.reading.Wait()
	})
	for range readerCount {
		r.reading.Go(func() {
			for ctx.Err() == nil {
				a, err := c.Send(context.WithoutCancel(ctx), http.MethodGet, path, nil)
				if err == nil {
					err = a.Expect(http.StatusOK)
				}
				if err != nil {
					r.failed.CompareAndSwap(nil, &err)
					return
				}
				r.count.Add(1)
			}
		})
	}
	return r
}

// await returns when there were n more reads.
func (r *readers) await(t testing.TB, n int64) {
	t.Helper()
	late := time.After(giveUp)
	for end := r.count.Load() + n; r.count.Load() < end; {
		select {
		case <-late:
			t.Fatalf("only %d of %d reads", r.count.Load()-end+n, n)
		case <-time.After(time.Millisecond):
		}
		r.check(t)
	}
}

func (r *readers) check(t testing.TB) {
	t.Helper()
	if failed := r.failed.Load(); failed != nil {
		t.Fatal(*failed)
	}
}

// stop ends the readers, none of which should have got anything but what it asked for.
func (r *readers) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	r.reading.Wait()
	r.check(t)
}
