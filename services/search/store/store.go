// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	tables "github.com/tripod-k8s/tripod/services/search/store/schema"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// Store is a database with the objects of clusters.
type Store struct {
	*streams.Registry
	*access.Rights
	*history.Log
	db *database.DB
	// filter is nil if everything is shown.
	filter access.Filter
	bounds database.Bounds
	// many is manyMatches, if that is not of a test.
	many int64
}

// Open returns the store in the database at a URL, see database.Open. It connects when the store is first used. Call Migrate before
// anything else.
func Open(location string) (*Store, error) {
	db, err := database.Open(location)
	if err != nil {
		return nil, err
	}
	return &Store{Registry: streams.In(db, ""), Rights: access.In(db), Log: history.In(db, database.Bounds{}), db: db, many: manyMatches}, nil
}

// Migrate brings the database to the schema of this binary, see schema.Migrate.
func (s *Store) Migrate(ctx context.Context) error { return tables.Migrate(ctx, s.db) }

// Throttled returns the store with a throttle for work that takes several transactions, see database.DB.Throttled.
func (s *Store) Throttled(throttle database.Throttle) *Store {
	limited := *s
	limited.db = s.db.Throttled(throttle)
	limited.Registry, limited.Rights, limited.Log = s.Registry.On(limited.db), access.In(limited.db), s.Log.On(limited.db)
	return &limited
}

// WithHub returns the store with a cluster that search is part of: what it says about a kind counts for all clusters. The name may be
// empty.
func (s *Store) WithHub(cluster string) *Store {
	of := *s
	of.Registry = streams.In(s.db, cluster)
	return &of
}

// Close closes all connections.
func (s *Store) Close() error { return s.db.Close() }

// CloseIdleConnections closes connections that nothing uses.
func (s *Store) CloseIdleConnections() { s.db.CloseIdleConnections() }

// Ping returns why the database cannot be reached.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx) }

// Analyze lets the database look at what the tables have, see database.DB.Analyze.
func (s *Store) Analyze(ctx context.Context) error { return s.db.Analyze(ctx) }
