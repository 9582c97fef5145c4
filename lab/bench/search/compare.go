// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// compared is what was measured of a side.
type compared struct {
	Sync    firstSync
	Lag     *lag
	Watches *watched
	Found   []found
}

// compare measures both sides, one after the other, with the same members.
func (b *benchmark) compare(ctx context.Context, r *report) error {
	all, err := b.startMembers(ctx)
	if err != nil {
		return err
	}
	names := []string{tripod}
	if b.clusterpedia != "" {
		names = append(names, clusterpedia)
	}
	for _, name := range names {
		if r.Sides[name], err = b.measureSide(ctx, name, all); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, m := range all {
		if err := errors.Join(m.etcd.Close(), m.Process.Stop(), m.Etcd.Stop()); err != nil {
			return err
		}
	}
	return nil
}

func (b *benchmark) measureSide(ctx context.Context, name string, all []*member) (c *compared, err error) {
	database := strings.ToLower(name)
	db, err := b.database(database)
	if err != nil {
		return nil, err
	}
	s, err := b.start(ctx, name, database, db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop(), b.drop(database)) }()
	c = &compared{}
	apps := all[0].apps
	if c.Sync, err = b.firstSync(ctx, s, all, apps*appSize*len(all)); err != nil {
		return nil, err
	}
	logf("%s: first copy %.1f s, %.0f MB at most, %.0f MB at rest", name, c.Sync.Seconds, c.Sync.Peak, c.Sync.Rest)
	if b.run.MatchString(listPart) {
		if _, err := s.db.ExecContext(ctx, "VACUUM ANALYZE"); err != nil {
			return nil, err
		}
		for _, what := range searches {
			if what.alone && name != tripod {
				continue
			}
			f, err := b.search(ctx, s, what, apps)
			if err != nil {
				return nil, err
			}
			logf("%s: %s: p50 %.1f ms, p99 %.1f ms, CPU %.1f and %.1f ms", name, f.Name, f.P50, f.P99, f.CPU, f.PostgresCPU)
			c.Found = append(c.Found, f)
		}
	}
	if b.run.MatchString(lagPart) {
		l, err := b.measureLag(ctx, s, all)
		if err != nil {
			return nil, err
		}
		logf("%s: %.0f changes/s, p50 %.0f ms, p99 %.0f ms, %d never seen", name, l.PerSecond, l.P50, l.P99, l.NeverSeen)
		c.Lag = &l
	}
	if b.run.MatchString(watchPart) && name == tripod {
		w, err := b.measureWatches(ctx, s, all)
		if err != nil {
			return nil, err
		}
		logf("%d watches: %.0f events/s, p50 %.0f ms, p99 %.0f ms", watches, w.EventsPerSecond, w.P50, w.P99)
		c.Watches = &w
	}
	return c, nil
}
