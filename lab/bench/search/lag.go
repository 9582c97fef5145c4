// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

const (
	// changedAnnotation is when a pod was changed, in nanoseconds since 1970.
	changedAnnotation = "bench/at"
	// sampled is one in how many changes of a member is looked for in the database, lookInterval how often, and looks how many at a time.
	sampled      = 20
	lookInterval = 5 * time.Millisecond
	looks        = 5
	// lagLimit is how long a change is waited for.
	lagLimit = 30 * time.Second
)

// lag is how long changes took from etcd to the database.
type lag struct {
	PerSecond          float64
	P50, P99, Most     float64
	CPU, PostgresCPU   float64
	Samples, NeverSeen int64
	// HistoryKB is what the history of a change takes in the database. Only search has one.
	HistoryKB float64
}

// measureLag changes pods at a rate, and looks for some of the changes in the database of a side.
func (b *benchmark) measureLag(ctx context.Context, s *side, all []*member) (l lag, err error) {
	began, err := b.spent(s)
	if err != nil {
		return l, err
	}
	before, err := s.historyKB(ctx)
	if err != nil {
		return l, err
	}
	w := &watcher{side: s, times: load.NewTimes(), queue: map[string][]sample{}}
	looking := make(chan struct{})
	changing, changed := context.WithCancel(ctx)
	go func() {
		defer close(looking)
		w.run(ctx, changing.Done())
	}()
	var turn atomic.Int64
	result := load.Offer(ctx, load.Offered{PerSecond: float64(b.changes), Duration: b.duration, Workers: 64}, func(ctx context.Context) error {
		n := int(turn.Add(1)) - 1
		m, changed, err := change(ctx, all, n)
		if err == nil && n%sampled < len(all) { // as many of each member
			w.add(m.name, changed)
		}
		return err
	})
	changed()
	<-looking
	ended, failed := b.spent(s)
	after, unknown := s.historyKB(ctx)
	if err := errors.Join(failed, unknown, result.Error); err != nil {
		return l, fmt.Errorf("changes of %s: %w", s.name, err)
	}
	l.PerSecond, l.Samples, l.NeverSeen = result.PerSecond(), w.times.Count(), w.neverSeen
	l.P50, l.P99, l.Most = w.times.Milliseconds(50), w.times.Milliseconds(99), w.times.Milliseconds(100)
	l.HistoryKB = (after - before) / float64(result.Requests)
	each := 1e3 / float64(result.Requests)
	l.CPU, l.PostgresCPU = (ended.copies-began.copies).Seconds()*each, (ended.postgres-began.postgres).Seconds()*each
	return l, nil
}

// historyKB returns what the history takes in the database.
func (s *side) historyKB(ctx context.Context) (size float64, err error) {
	if s.name == tripod {
		err = s.db.QueryRowContext(ctx, "SELECT (pg_total_relation_size('changes') + pg_total_relation_size('versions')) / 1e3").Scan(&size)
	}
	return size, err
}

// change makes the n-th change: of the next pod of the next member.
func change(ctx context.Context, all []*member, n int) (*member, sample, error) {
	m := all[n%len(all)]
	a, i := app{m.n, n / len(all) / podsEach % m.apps}, n/len(all)%podsEach
	pod, at := a.podObject(i), time.Now()
	pod.Annotations[changedAnnotation] = strconv.FormatInt(at.UnixNano(), 10)
	op, err := put("pods", pod.Namespace, pod.Name, pod)
	if err == nil {
		_, err = m.etcd.Do(ctx, op)
	}
	return m, sample{pod.Namespace, pod.Name, at}, err
}

// sample is a change that is looked for.
type sample struct {
	namespace, name string
	at              time.Time
}

// watcher looks for samples in the database. It looks for the oldest ones of each member only, so that it takes little of PostgreSQL.
type watcher struct {
	side      *side
	times     *load.Times
	neverSeen int64

	mu    sync.Mutex
	queue map[string][]sample
}

func (w *watcher) add(member string, s sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue[member] = append(w.queue[member], s)
}

// run looks until all samples are found or late, and no more come.
func (w *watcher) run(ctx context.Context, over <-chan struct{}) {
	for ctx.Err() == nil {
		last := false
		select {
		case <-over:
			last = true
		default:
		}
		left := 0
		for _, member := range w.members() {
			left += w.look(ctx, member)
		}
		if last && left == 0 {
			return
		}
		time.Sleep(lookInterval)
	}
}

func (w *watcher) members() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.queue {
		names = append(names, name)
	}
	return names
}

// look takes those of the oldest samples that the database has, and returns how many are left.
func (w *watcher) look(ctx context.Context, member string) int {
	w.mu.Lock()
	waiting := slices.Clone(w.queue[member])
	w.mu.Unlock()
	done := map[sample]bool{}
	for _, s := range waiting[:min(len(waiting), looks)] {
		if w.side.has(ctx, member, s) {
			w.times.Add(time.Since(s.at))
			done[s] = true
		} else if time.Since(s.at) > lagLimit {
			w.neverSeen++
			done[s] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue[member] = slices.DeleteFunc(w.queue[member], func(s sample) bool { return done[s] })
	return len(w.queue[member])
}

// has reports whether the database has a change of a pod, or a later one.
func (s *side) has(ctx context.Context, member string, change sample) bool {
	var text sql.NullString
	if err := s.db.QueryRowContext(ctx, s.read, member, change.namespace, change.name).Scan(&text); err != nil {
		return false
	}
	has, err := strconv.ParseInt(text.String, 10, 64)
	return err == nil && has >= change.at.UnixNano()
}
