// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
)

// changeLog are the changes of a resource in the database.
type changeLog struct {
	db              *sql.DB
	table, resource string
}

// query returns a statement about the tables.
func (l *changeLog) query(statement string) string {
	return strings.NewReplacer("CHANGES", l.table+"_changes", "RESOURCES", l.table+"_resources").Replace(statement)
}

// create creates the tables, and the counter of the resource. It begins with the time, so that a database that was lost counts on.
func (l *changeLog) create(ctx context.Context) error {
	var err error
	for range 2 { // PostgreSQL fails if two replicas create a table at once
		err = l.createOnce(ctx)
		if err == nil {
			break
		}
	}
	return err
}

func (l *changeLog) createOnce(ctx context.Context) error {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS RESOURCES (resource TEXT PRIMARY KEY, revision BIGINT NOT NULL, compacted BIGINT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS CHANGES (resource TEXT NOT NULL, revision BIGINT NOT NULL, name TEXT NOT NULL, data BYTEA,
			PRIMARY KEY (resource, revision))`,
		`CREATE INDEX IF NOT EXISTS CHANGES_by_name ON CHANGES (resource, name, revision)`,
	} {
		if _, err := l.db.ExecContext(ctx, l.query(statement)); err != nil {
			return fmt.Errorf("cannot create the tables %s_*: %w", l.table, err)
		}
	}
	now := time.Now().UnixMicro()
	_, err := l.db.ExecContext(ctx, l.query(
		`INSERT INTO RESOURCES (resource, revision, compacted) VALUES ($1, $2, $3) ON CONFLICT (resource) DO NOTHING`), l.resource, now, now)
	return err
}

// state returns the latest revision, and that up to which changes are removed.
func (l *changeLog) state(ctx context.Context) (current, compacted int64, err error) {
	row := l.db.QueryRowContext(ctx, l.query(`SELECT revision, compacted FROM RESOURCES WHERE resource = $1`), l.resource)
	return current, compacted, row.Scan(&current, &compacted)
}

// in runs a function in a transaction that has the counter of the resource, so that no other one writes.
func (l *changeLog) in(ctx context.Context, add int64, f func(tx *sql.Tx, revision int64) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var revision int64
	err = tx.QueryRowContext(ctx, l.query(`UPDATE RESOURCES SET revision = revision + $1 WHERE resource = $2 RETURNING revision`),
		add, l.resource).Scan(&revision)
	if err == nil {
		err = f(tx, revision)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// errConflict says that an object is in another revision.
var errConflict = errors.New("the object is in another revision")

// append adds a change, and returns its revision, or 0 if the object is in another revision than before.
func (l *changeLog) append(ctx context.Context, key string, before int64, data []byte) (int64, error) {
	var made int64
	err := l.in(ctx, 1, func(tx *sql.Tx, revision int64) error {
		var last int64
		var deleted bool
		err := tx.QueryRowContext(ctx, l.query(
			`SELECT revision, data IS NULL FROM CHANGES WHERE resource = $1 AND name = $2 ORDER BY revision DESC LIMIT 1`), l.resource, key).
			Scan(&last, &deleted)
		if deleted || errors.Is(err, sql.ErrNoRows) {
			last, err = 0, nil
		}
		if err != nil {
			return err
		}
		if last != before {
			return errConflict
		}
		made = revision
		_, err = tx.ExecContext(ctx, l.query(`INSERT INTO CHANGES (resource, revision, name, data) VALUES ($1, $2, $3, $4)`),
			l.resource, revision, key, data)
		return err
	})
	if errors.Is(err, errConflict) {
		return 0, nil
	}
	return made, err
}

// changes returns the first changes after a revision, up to another one.
func (l *changeLog) changes(ctx context.Context, after, last int64, limit int) ([]revisions.Row, error) {
	return l.rows(ctx, l.db, `SELECT revision, name, data FROM CHANGES WHERE resource = $1 AND revision > $2 AND revision <= $3
		ORDER BY revision LIMIT $4`, l.resource, after, last, limit)
}

// objects returns what the objects were at the earliest revision that the changes reach back to.
func (l *changeLog) objects(ctx context.Context) (int64, []revisions.Row, error) {
	var compacted int64
	var found []revisions.Row
	err := l.in(ctx, 0, func(tx *sql.Tx, _ int64) error { // so that nothing is compacted meanwhile
		err := tx.QueryRowContext(ctx, l.query(`SELECT compacted FROM RESOURCES WHERE resource = $1`), l.resource).Scan(&compacted)
		if err != nil {
			return err
		}
		found, err = l.rows(ctx, tx, `SELECT revision, name, data FROM CHANGES WHERE resource = $1 AND revision <= $2 ORDER BY revision`,
			l.resource, compacted)
		return err
	})
	return compacted, found, err
}

// compact removes what later changes, up to a revision, have replaced.
func (l *changeLog) compact(ctx context.Context, revision int64, count bool) error {
	var add int64
	if count {
		add = 1
	}
	return l.in(ctx, add, func(tx *sql.Tx, _ int64) error {
		_, err := tx.ExecContext(ctx, l.query(`DELETE FROM CHANGES WHERE resource = $1 AND revision <= $2 AND (data IS NULL OR EXISTS (
			SELECT 1 FROM CHANGES later WHERE later.resource = $1 AND later.name = CHANGES.name
			AND later.revision > CHANGES.revision AND later.revision <= $2))`), l.resource, revision)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, l.query(`UPDATE RESOURCES SET compacted = $1 WHERE resource = $2 AND compacted < $3`),
			revision, l.resource, revision)
		return err
	})
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (l *changeLog) rows(ctx context.Context, from querier, statement string, args ...any) ([]revisions.Row, error) {
	rows, err := from.QueryContext(ctx, l.query(statement), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err has what is wrong
	var found []revisions.Row
	for rows.Next() {
		var row revisions.Row
		if err := rows.Scan(&row.Revision, &row.Key, &row.Data); err != nil {
			return nil, err
		}
		found = append(found, row)
	}
	return found, rows.Err()
}
