// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Store is a database with the objects of clusters.
type Store struct {
	dialect     dialect
	write, read *sql.DB
	// searches has room for those that run. Others wait for them without a connection.
	searches chan struct{}
	// scope is nil if everything is shown.
	scope  Scope
	bounds Bounds
	// turn is nil if nothing has to wait for others.
	turn Turn
	// hub is the cluster that says what a kind is for all clusters, or empty.
	hub string
}

// Open returns the database at a URL: sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE. It connects when
// the store is first used. Call Migrate before anything else.
func Open(location string) (*Store, error) {
	d, write, read, err := open(location)
	if err != nil {
		return nil, err
	}
	return &Store{dialect: d, write: write, read: read, searches: make(chan struct{}, maxSearches)}, nil
}

// WithHub returns the store with a cluster that search is part of: what it says about a kind counts for all clusters. The name may be empty.
func (s *Store) WithHub(cluster string) *Store {
	of := *s
	of.hub = cluster
	return &of
}

// Close closes all connections.
func (s *Store) Close() error {
	return errors.Join(s.read.Close(), s.write.Close())
}

// CloseIdleConnections closes connections that nobody uses. Each keeps its last batch (pgx): 16 have 14 MB after a first copy.
func (s *Store) CloseIdleConnections() {
	if s.dialect != sqlite {
		s.write.SetMaxIdleConns(0)
		s.write.SetMaxIdleConns(maxWriters)
	}
}

// Ping returns why the database cannot be reached.
func (s *Store) Ping(ctx context.Context) error { return s.read.PingContext(ctx) }

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

// within runs a function in a transaction that writes.
func (s *Store) within(ctx context.Context, do func(*transaction) error) error {
	defer measure(writes)()
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it is an error after a commit
	if err := do(&transaction{s.dialect, tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// transaction runs statements.
type transaction struct {
	dialect
	tx *sql.Tx
}

// exec runs a statement and returns how many rows it concerned.
func (t *transaction) exec(ctx context.Context, s *statement) (int64, error) {
	result, err := t.tx.ExecContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// value reads the only value of the only row of an answer. It returns sql.ErrNoRows if there is none.
func value[T any](ctx context.Context, t *transaction, s *statement) (T, error) {
	var v T
	err := t.tx.QueryRowContext(ctx, s.text.String(), s.args...).Scan(&v)
	return v, err
}

// each calls a function for every row of an answer.
func (t *transaction) each(ctx context.Context, s *statement, row func(scan func(...any) error) error) error {
	rows, err := t.tx.QueryContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err has it
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ensure returns the ID of a row that is inserted unless it exists. find selects its ID.
func (t *transaction) ensure(ctx context.Context, find, insert *statement) (int64, error) {
	id, err := value[int64](ctx, t, find)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	if t.dialect == mysqlFamily {
		insert.add(" ON DUPLICATE KEY UPDATE id = id")
	} else {
		insert.add(" ON CONFLICT DO NOTHING")
	}
	if _, err := t.exec(ctx, insert); err != nil {
		return 0, err
	}
	if t.dialect == mysqlFamily {
		find.add(" LOCK IN SHARE MODE") // a row that another transaction has inserted since this one began
	}
	id, err = value[int64](ctx, t, find)
	if err != nil {
		return 0, fmt.Errorf("a row that was inserted is not there: %w", err)
	}
	return id, nil
}
