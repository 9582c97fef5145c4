// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

const (
	// watches are open at a time, watchesPerConnection of them on a connection. Each asks for the pods of a team in all clusters.
	watches              = 500
	watchesPerConnection = 10
	// watchedShare is which part of the changes of the measurement of lag are made while they are open.
	watchedShare = 10
)

// watched is how long changes took from etcd of the member to clients of watches.
type watched struct {
	PerSecond, EventsPerSecond float64
	P50, P99, Most             float64
	// CPU is the processor time of the process that answers for each event, in ms.
	CPU    float64
	Events int64
	// Missing events did not come.
	Missing int64
}

// watching are open watches.
type watching struct {
	// since is when they began. The last changes of the measurement before may still be on their way, and do not count.
	since   time.Time
	times   *load.Times
	failed  atomic.Pointer[error]
	readers sync.WaitGroup
}

// measureWatches changes pods while many watch them.
func (b *benchmark) measureWatches(ctx context.Context, s *side, all []*member) (m watched, err error) {
	config := s.hub.Admin()
	config.Host, config.CAFile, config.Insecure = s.url, "", true
	client, err := load.NewClient(config, watches/watchesPerConnection)
	if err != nil {
		return m, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	w := &watching{since: time.Now(), times: load.NewTimes()}
	defer w.readers.Wait()
	defer cancel()
	if err := w.open(ctx, s, client); err != nil {
		return m, err
	}
	began, err := b.spent(s)
	if err != nil {
		return m, err
	}
	var turn atomic.Int64
	result := load.Offer(ctx, load.Offered{PerSecond: float64(b.changes) / watchedShare, Duration: b.duration, Workers: 64}, func(ctx context.Context) error {
		_, _, err := change(ctx, all, int(turn.Add(1))-1)
		return err
	})
	if result.Error != nil {
		return m, result.Error
	}
	m.Events = result.Requests * watches / teams
	if m.Missing, err = w.await(ctx, m.Events); err != nil {
		return m, err
	}
	ended, err := b.spent(s)
	if err != nil {
		return m, err
	}
	m.PerSecond, m.EventsPerSecond = result.PerSecond(), float64(m.Events)/ended.at.Sub(began.at).Seconds()
	m.P50, m.P99, m.Most = w.times.Milliseconds(50), w.times.Milliseconds(99), w.times.Milliseconds(100)
	m.CPU = (ended.serves - began.serves).Seconds() * 1e3 / float64(m.Events)
	return m, nil
}

// open opens all watches, from the revision of a list on.
func (w *watching) open(ctx context.Context, s *side, client *load.Client) error {
	text, err := s.client.Read(ctx, load.Request{Method: "GET", Path: asking("/api/v1/pods", "limit", "1")})
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	var opening errgroup.Group
	opening.SetLimit(2 * watchesPerConnection)
	for n := range watches {
		opening.Go(func() error {
			path := asking("/api/v1/pods", "watch", "1", "resourceVersion", list.Metadata.ResourceVersion, "labelSelector", fmt.Sprintf("team=team-%d", n%teams))
			body, err := client.Stream(ctx, load.Request{Method: "GET", Path: path})
			if err == nil {
				w.readers.Go(func() { w.read(ctx, body) })
			}
			return err
		})
	}
	return opening.Wait()
}

// read notes when changes come, until the watch ends.
func (w *watching) read(ctx context.Context, body io.ReadCloser) {
	defer body.Close() //nolint:errcheck // it was read
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			if err = fmt.Errorf("a watch has ended: %w", err); ctx.Err() == nil {
				w.failed.Store(&err)
			}
			return
		}
		_, after, _ := bytes.Cut(line, []byte(changedAnnotation+`"`))
		_, after, _ = bytes.Cut(after, []byte(`"`))
		if text, _, found := bytes.Cut(after, []byte(`"`)); found {
			if at, err := strconv.ParseInt(string(text), 10, 64); err == nil && at >= w.since.UnixNano() {
				w.times.Add(time.Since(time.Unix(0, at)))
			}
		}
	}
}

// await returns when so many changes have come, or none comes any more. Those that are missing count as long as was waited.
func (w *watching) await(ctx context.Context, events int64) (missing int64, err error) {
	for has, since := w.times.Count(), time.Now(); has < events && time.Since(since) < lagLimit; {
		if failed := w.failed.Load(); failed != nil {
			return 0, *failed
		}
		if err := ctxRest(ctx, lookInterval); err != nil {
			return 0, err
		}
		if now := w.times.Count(); now > has {
			has, since = now, time.Now()
		}
	}
	missing = events - w.times.Count()
	if missing < 0 {
		return 0, errors.New("watches have more changes than were made")
	}
	for range missing {
		w.times.Add(lagLimit)
	}
	return missing, nil
}
