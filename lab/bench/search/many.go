// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// many is search with many objects.
type many struct {
	Objects int
	Loaded  loaded
	// Lists is how many lists search asked for that the database had already.
	Lists                              int64
	DatabaseMB, Rest, Peak, ServesRest float64
	Found                              []found
}

func clusterName(n int) string { return fmt.Sprintf("member-%d", n%members) }

// measureMany has search go on where the loader has ended, and searches among the objects.
func (b *benchmark) measureMany(ctx context.Context, r *report) (err error) {
	apps, m := b.many/b.clusters/appSize, &many{}
	m.Objects = apps * appSize * b.clusters
	var database string
	if database, m.Loaded, err = b.manyDatabase(ctx, apps); err != nil {
		return err
	}
	logf("%d objects were loaded in %.0f s", m.Objects, m.Loaded.Seconds)
	db, err := sql.Open("pgx", b.postgres.URL(database))
	if err != nil {
		return err
	}
	// The hub of this run makes other PediaClusters. Search forgets what it has of those of an earlier run.
	if _, err := db.ExecContext(ctx, "UPDATE clusters SET uid = ''"); err != nil {
		return err
	}
	s, err := b.start(ctx, tripod, database, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := b.resume(ctx, s, apps, m); err != nil {
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
	if b.run.MatchString(consolePart) {
		r.Console = newConsoleReport(b.options, m)
		if r.Console.Found, err = b.searchAll(ctx, s, wordSearches, apps); err != nil {
			return err
		}
		if err = b.views(ctx, s, apps, r.Console); err != nil {
			return err
		}
	}
	if !b.run.MatchString(manyPart) {
		return nil
	}
	if m.Found, err = b.searchAll(ctx, s, searches, apps); err != nil {
		return err
	}
	m.ServesRest, _, err = s.server().Resident()
	r.Many = m
	return err
}

// searchAll measures some searches among the many objects.
func (b *benchmark) searchAll(ctx context.Context, s *side, all []searching, apps int) (found []found, err error) {
	for _, what := range all {
		f, err := b.search(ctx, s, what, apps)
		if err != nil {
			return found, err
		}
		logf("%s: p50 %.1f ms, p99 %.1f ms", f.Name, f.P50, f.P99)
		found = append(found, f)
	}
	return found, nil
}

// resume has a side go on to follow the members of the loaded objects.
func (b *benchmark) resume(ctx context.Context, s *side, apps int, m *many) error {
	began, fakes := time.Now(), []*fake{}
	for n := range b.clusters {
		f, err := startFake(ctx, n, apps)
		if err != nil {
			return err
		}
		if err := s.add(ctx, fakeName(n), f.kubeconfig()); err != nil {
			return err
		}
		fakes = append(fakes, f)
	}
	err := until(ctx, "search follows all members", 2*time.Minute, func() (bool, error) {
		var following int
		err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM streams WHERE heard_at > $1", began.UnixMilli()).Scan(&following)
		return following == b.clusters*len(fakeKinds), err
	})
	for _, f := range fakes {
		m.Lists += f.lists.Load()
	}
	return err
}
