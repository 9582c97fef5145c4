// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// The gate of a resource is a row of the changes, so databases of earlier releases need no other tables. It is no change of the resource:
// its column resource has gateOf before the name, and its column name has the move. An open gate has no row.
const gateOf = "gate of "

var _ storages.Gated = &store{}

// Gate implements storages.Gated.
func (s *store) Gate(ctx context.Context) (string, error) {
	move, err := s.log.gate(ctx, s.log.db)
	return move, s.answered(ctx, err)
}

// SetGate implements storages.Gated. It has the counter of the resource, as each write does.
func (s *store) SetGate(ctx context.Context, from, to string) error {
	err := s.log.in(ctx, 0, 0, func(tx *sql.Tx, _, _ int64) error {
		move, err := s.log.gate(ctx, tx)
		if err == nil && move != from {
			err = storages.ErrGate
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.log.query(`DELETE FROM CHANGES WHERE resource = $1`), gateOf+s.log.resource); err != nil || to == "" {
			return err
		}
		_, err = tx.ExecContext(ctx, s.log.query(`INSERT INTO CHANGES (resource, revision, name) VALUES ($1, 0, $2)`),
			gateOf+s.log.resource, to)
		return err
	})
	if errors.Is(err, storages.ErrGate) {
		return storages.ErrGate
	}
	return s.answered(ctx, err)
}

// Raise implements storages.Gated.
func (s *store) Raise(ctx context.Context, move string, above int64) (int64, error) {
	gate, err := s.Gate(ctx)
	if err != nil {
		return 0, err
	}
	if gate != move {
		return 0, storages.ErrGate
	}
	return s.RaisedAbove(above)
}

// reader is a database or a transaction.
type reader interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// gate returns the move that has closed the gate, or "".
func (l *changeLog) gate(ctx context.Context, from reader) (move string, err error) {
	err = from.QueryRowContext(ctx, l.query(`SELECT name FROM CHANGES WHERE resource = $1`), gateOf+l.resource).Scan(&move)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return move, err
}

// admit returns an error if the gate does not admit the writes of a context.
func (l *changeLog) admit(ctx context.Context, tx *sql.Tx) error {
	gate, err := l.gate(ctx, tx)
	if err == nil && gate != storages.MoveOf(ctx) {
		err = errRefused
	}
	return err
}

// errRefused says that the gate does not admit a write. The database answers.
var errRefused = errors.New("the gate does not admit the write")
