// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
)

// many is the copy of the many objects.
type many struct {
	Objects                            int
	Seconds, CPU, PostgresCPU          float64
	DatabaseMB, Rest, Peak, ServesRest float64
	Found                              []found
}

func clusterName(n int) string { return fmt.Sprintf("member-%d", n%members) }

// measureMany has search copy the clusters that bench plays, and searches among their objects.
func (b *benchmark) measureMany(ctx context.Context, r *report) (err error) {
	const database = "many"
	s, err := b.start(ctx, tripod, database)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := b.stop(s, database); err == nil {
			err = stopped
		}
	}()
	apps, m := b.many/manyClusters/appSize, &many{}
	m.Objects = apps * appSize * manyClusters
	began, err := b.spent(s)
	if err != nil {
		return err
	}
	for n := range manyClusters {
		f, err := startFake(ctx, n, apps)
		if err != nil {
			return err
		}
		if err := s.add(ctx, fmt.Sprintf("member-%d", n), f.kubeconfig()); err != nil {
			return err
		}
	}
	if err := s.awaitObjects(ctx, m.Objects); err != nil {
		return err
	}
	ended, err := b.spent(s)
	if err != nil {
		return err
	}
	m.Seconds, m.CPU, m.PostgresCPU = ended.at.Sub(began.at).Seconds(), (ended.copies - began.copies).Seconds(), (ended.postgres - began.postgres).Seconds()
	say("%d objects after %.0f s", m.Objects, m.Seconds)
	// What PostgreSQL and search do some time after a first copy.
	if _, err := s.db.ExecContext(ctx, "VACUUM ANALYZE"); err != nil {
		return err
	}
	if err := ctxRest(ctx, settle); err != nil {
		return err
	}
	if m.Rest, m.Peak, err = s.copier().Resident(); err != nil {
		return err
	}
	if err := s.db.QueryRowContext(ctx, "SELECT pg_database_size(current_database()) / 1e6").Scan(&m.DatabaseMB); err != nil {
		return err
	}
	for _, what := range searches {
		f, err := b.search(ctx, s, what, apps)
		if err != nil {
			return err
		}
		say("%s: p50 %.1f ms, p99 %.1f ms", f.Name, f.P50, f.P99)
		m.Found = append(m.Found, f)
	}
	m.ServesRest, _, err = s.server().Resident()
	r.Many = m
	return err
}
