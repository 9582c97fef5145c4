// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Tx is a transaction.
type Tx struct {
	Dialect
	tx *sql.Tx
}

// RowsAtOnce bounds the rows of a statement. SQLite takes 32,766 values.
const RowsAtOnce = 1000

// SQL returns a statement of constant text, in which each ? stands for the next value. Two of them, ??, stand for the operator ? of
// PostgreSQL.
func (t *Tx) SQL(text string, values ...any) *Statement { return SQL(t.Dialect, text, values...) }

// Exec runs a statement and returns how many rows it concerned.
func (t *Tx) Exec(ctx context.Context, s *Statement) (int64, error) {
	result, err := t.tx.ExecContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// All runs statements until one fails.
func (t *Tx) All(ctx context.Context, statements ...*Statement) error {
	for _, statement := range statements {
		if _, err := t.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Row returns the only row of an answer. Its Scan returns sql.ErrNoRows if there is none, see IsNone.
func (t *Tx) Row(ctx context.Context, s *Statement) *sql.Row {
	return t.tx.QueryRowContext(ctx, s.text.String(), s.args...)
}

// IsNone reports whether a row was not found.
func IsNone(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// Value reads the only value of the only row of an answer. It returns sql.ErrNoRows if there is none.
func Value[T any](ctx context.Context, t *Tx, s *Statement) (T, error) {
	var v T
	err := t.Row(ctx, s).Scan(&v)
	return v, err
}

// Query returns the rows of an answer. Close them before the next statement.
func (t *Tx) Query(ctx context.Context, s *Statement) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, s.text.String(), s.args...)
}

// Each calls a function for every row of an answer.
func (t *Tx) Each(ctx context.Context, s *Statement, row func(scan func(...any) error) error) error {
	rows, err := t.Query(ctx, s)
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

// IDs reads an answer with one column of numbers.
func (t *Tx) IDs(ctx context.Context, find *Statement) (ids []int64, err error) {
	err = t.Each(ctx, find, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// Ensure returns the ID of a row that is inserted unless it exists. find selects its ID.
func (t *Tx) Ensure(ctx context.Context, find, insert *Statement) (int64, error) {
	id, err := Value[int64](ctx, t, find)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	if _, err := t.Exec(ctx, insert.Add(t.orNothing())); err != nil {
		return 0, err
	}
	id, err = Value[int64](ctx, t, find.Add(t.seeOthers()))
	if err != nil {
		return 0, fmt.Errorf("a row that was inserted is not there: %w", err)
	}
	return id, nil
}

// ForIDs runs a statement for each part of many IDs.
func (t *Tx) ForIDs(ctx context.Context, ids []int64, make func([]int64) *Statement) error {
	for part := range slices.Chunk(ids, RowsAtOnce) {
		if _, err := t.Exec(ctx, make(part)); err != nil {
			return err
		}
	}
	return nil
}

// Insert inserts rows of values. They have the same types in each row. A statement ends with end, see OnConflict.
func (t *Tx) Insert(ctx context.Context, table string, columns []string, rows [][]any, end string) error {
	for part := range slices.Chunk(rows, RowsAtOnce) {
		s := t.SQL("INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") ")
		t.rows(s, part)
		if _, err := t.Exec(ctx, s.Add(end)); err != nil {
			return err
		}
	}
	return nil
}

// LastRevision selects the last revision.
const LastRevision = "SELECT last FROM revisions WHERE id = 1"

// Revisions returns the first of n revisions. Until the transaction commits, no other transaction gets any: each that writes objects calls
// this first, so all writers lock in one order.
func (t *Tx) Revisions(ctx context.Context, n int) (first int64, err error) {
	if _, err := t.Exec(ctx, t.SQL("UPDATE revisions SET last = last + ? WHERE id = 1", n)); err != nil {
		return 0, err
	}
	last, err := Value[int64](ctx, t, t.SQL(LastRevision))
	return last - int64(n) + 1, err
}

// Sequence runs steps until one fails.
func Sequence(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// RemovedAtOnce is how many objects or other rows one transaction removes. Others that write wait meanwhile.
const RemovedAtOnce = 500

// AsTime reads a time of the database. It is zero for never.
func AsTime(milliseconds int64) time.Time {
	if milliseconds == 0 {
		return time.Time{}
	}
	return time.UnixMilli(milliseconds)
}
