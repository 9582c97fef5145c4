// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"github.com/tripod-k8s/tripod/services/search/store/database"
	tables "github.com/tripod-k8s/tripod/services/search/store/schema"

	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Store is a database with the objects of clusters.
type Store struct {
	db *database.DB
	// scope is nil if everything is shown.
	scope  Scope
	bounds Bounds
	// hub is the cluster that says what a kind is for all clusters, or empty.
	hub string
}

// Open returns the store in the database at a URL, see database.Open. It connects when the store is first used. Call Migrate before
// anything else.
func Open(location string) (*Store, error) {
	db, err := database.Open(location)
	if err != nil {
		return nil, err
	}
	return &Store{db: db}, nil
}

// Migrate brings the database to the schema of this binary, see schema.Migrate.
func (s *Store) Migrate(ctx context.Context) error { return tables.Migrate(ctx, s.db) }

// InTurns returns the store with turns for work that takes several transactions, see database.DB.InTurns.
func (s *Store) InTurns(turn database.Turn) *Store {
	limited := *s
	limited.db = s.db.InTurns(turn)
	return &limited
}

// WithHub returns the store with a cluster that search is part of: what it says about a kind counts for all clusters. The name may be
// empty.
func (s *Store) WithHub(cluster string) *Store {
	of := *s
	of.hub = cluster
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

// Kind is a resource in one version, as a member serves it.
type Kind struct {
	schema.GroupVersionResource
	// Name is the kind, such as Deployment.
	Name       string
	Namespaced bool
	Details
}

// Details are what clients and tables show about a kind. Clusters may disagree about them.
type Details struct {
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
	// Columns are the printer columns of a CustomResourceDefinition, in JSON.
	Columns []byte `json:"columns,omitempty"`
}

// GroupVersionKind returns the kind with its group and version.
func (k Kind) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Name}
}
