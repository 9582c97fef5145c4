// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
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
	// lastEvents is how long the last events may take.
	lastEvents time.Duration

	client *load.Client
	bodies []io.Closer
	// events has the number of events of each watch.
	events []*atomic.Int64
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
	w := &watchers{delivered: load.NewTimes(), client: client, count: n * len(of), lastEvents: lastEvents}
	ctx, w.cancel = context.WithCancel(ctx)
	for _, r := range of {
		list, err := f.admin.Read(ctx, load.Request{Method: http.MethodGet, Path: r.collection(watchNamespace(r)) + "?limit=1"})
		var version string
		if err == nil {
			version, err = versionOf(list)
		}
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		watch := load.Request{Method: http.MethodGet, Path: r.collection(watchNamespace(r)) + "?watch=1&resourceVersion=" + version}
		var opened sync.Mutex
		if err := f.times(ctx, n, func(context.Context, int) error {
			body, err := client.Stream(ctx, watch)
			if err != nil {
				return err
			}
			got := &atomic.Int64{}
			opened.Lock()
			w.bodies, w.events = append(w.bodies, body), append(w.events, got)
			opened.Unlock()
			w.all.Go(func() { w.read(ctx, body, got) })
			return nil
		}); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot watch %s: %w", r.Name, err), w.close())
		}
	}
	return w, nil
}

// versionOf returns the resourceVersion of a list. In a list of custom resources, those of the items come first.
func versionOf(list []byte) (string, error) {
	var of struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(list, &of); err != nil {
		return "", fmt.Errorf("cannot read a list: %w", err)
	}
	return of.Metadata.ResourceVersion, nil
}

// read records the times of events, and counts them, until the watch ends.
func (w *watchers) read(ctx context.Context, body io.Reader, got *atomic.Int64) {
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
			got.Add(1)
		}
	}
}

// incompleteError means that watches did not get the events that were sent.
type incompleteError struct {
	watches, incomplete, ended int64
	events                     int64
}

func (e *incompleteError) Error() string {
	return fmt.Sprintf("%d of %d watches did not get exactly the %d events, and %d ended", e.incomplete, e.watches, e.events, e.ended)
}

// wait returns when each watch has n events. It returns an incompleteError if a watch has more, or if no more arrive.
func (w *watchers) wait(ctx context.Context, n int64) error {
	waiting, cancel := context.WithTimeout(ctx, w.lastEvents)
	defer cancel()
	want := n * int64(w.count)
	for w.delivered.Count() < want && waiting.Err() == nil {
		select {
		case <-time.After(time.Millisecond):
		case <-waiting.Done():
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	incomplete := int64(0)
	for _, got := range w.events {
		if got.Load() != n {
			incomplete++
		}
	}
	if incomplete > 0 {
		return &incompleteError{int64(w.count), incomplete, w.ended.Load(), n}
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
