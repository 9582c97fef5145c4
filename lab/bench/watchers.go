// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

const (
	// watchesPerConnection is how many watches of one client share a connection.
	watchesPerConnection = 10
	lastEvents           = 5 * time.Second
)

// watchNamespace returns the namespace whose objects are watched.
func watchNamespace(r resource) string { return "bench-watch-" + r.plural }

// ensureWatched creates the watched namespace and its objects.
func (f *fixture) ensureWatched(ctx context.Context, r resource, changed *objects) error {
	err := f.admin.Do(ctx, load.Request{
		Method: http.MethodPost, Path: "/api/v1/namespaces", Body: []byte(`{"metadata":{"name":"` + watchNamespace(r) + `"}}`),
	})
	var status *load.StatusError
	if err != nil && (!errors.As(err, &status) || status.Code != http.StatusConflict) {
		return err
	}
	return changed.reset(ctx, f.admin)
}

// watchers are open watches.
type watchers struct {
	// delivered is how long events took from when they were sent to when they were read.
	delivered *load.Times
	count     int

	client *load.Client
	bodies []io.Closer
	all    sync.WaitGroup
	ended  atomic.Int64
	cancel context.CancelFunc
}

// watch opens n watches for each of some resources.
func (f *fixture) watch(ctx context.Context, n int, credentials string, of ...resource) (*watchers, error) {
	client, err := load.NewClient(f.configs[credentials], max(n/watchesPerConnection, 1))
	if err != nil {
		return nil, err
	}
	w := &watchers{delivered: load.NewTimes(), client: client, count: n * len(of)}
	ctx, w.cancel = context.WithCancel(ctx)
	for _, r := range of {
		list, err := f.admin.Read(ctx, load.Request{Method: http.MethodGet, Path: r.collection(watchNamespace(r)) + "?limit=1"})
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		watch := load.Request{
			Method: http.MethodGet, Path: r.collection(watchNamespace(r)) + "?watch=1&resourceVersion=" + quotedAfter(list, versionBefore),
		}
		var opened sync.Mutex
		if err := f.times(ctx, n, func(context.Context, int) error {
			body, err := client.Stream(ctx, watch)
			if err != nil {
				return err
			}
			opened.Lock()
			w.bodies = append(w.bodies, body)
			opened.Unlock()
			w.all.Go(func() { w.read(ctx, body) })
			return nil
		}); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot watch %s: %w", r.Name, err), w.close())
		}
	}
	return w, nil
}

// read records the times of events until the watch ends.
func (w *watchers) read(ctx context.Context, body io.Reader) {
	lines := bufio.NewReaderSize(body, 8<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			if ctx.Err() == nil {
				w.ended.Add(1)
			}
			return
		}
		if sent, err := strconv.ParseInt(quotedAfter(line, sentBefore), 10, 64); err == nil {
			w.delivered.Add(time.Since(time.Unix(0, sent)))
		}
	}
}

// wait returns when all watchers have n events each, or when no more arrive.
func (w *watchers) wait(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, lastEvents)
	defer cancel()
	want := n * int64(w.count)
	for w.delivered.Count() < want {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d events of %d came, %d watches of %d ended", w.delivered.Count(), want, w.ended.Load(), w.count)
		}
	}
	return nil
}

// close ends the watches.
func (w *watchers) close() error {
	w.cancel()
	var errs []error
	for _, body := range w.bodies {
		errs = append(errs, body.Close())
	}
	w.all.Wait()
	w.client.Close()
	return errors.Join(errs...)
}
