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

// create creates the tables, if they do not exist, and the counter of the resource.
func (l *changeLog) create(ctx context.Context) error {
	var err error
	for range 2 { // PostgreSQL fails if two replicas create a table at once
		if err = l.createOnce(ctx); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	now := revisions.Following(0)
	_, err = l.db.ExecContext(ctx, l.query(
		`INSERT INTO RESOURCES (resource, revision, compacted) VALUES ($1, $2, $3) ON CONFLICT (resource) DO NOTHING`), l.resource, now, now)
	return err
}

// createOnce creates the tables. If they exist, it needs no right to create any.
func (l *changeLog) createOnce(ctx context.Context) error {
	var none int
	err := l.db.QueryRowContext(ctx, l.query(`SELECT COUNT(*) FROM RESOURCES, CHANGES WHERE 1 = 0`)).Scan(&none)
	if err == nil {
		return nil
	}
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
	return nil
}

// state returns the latest revision, and that up to which changes are removed.
func (l *changeLog) state(ctx context.Context) (current, compacted int64, err error) {
	row := l.db.QueryRowContext(ctx, l.query(`SELECT revision, compacted FROM RESOURCES WHERE resource = $1`), l.resource)
	return current, compacted, row.Scan(&current, &compacted)
}

// in runs a function in a transaction that has the counter of the resource, so that no other one writes. The counter becomes the revision
// that it is or the given one, whichever is later, and a step later than that.
func (l *changeLog) in(ctx context.Context, from, step int64, f func(tx *sql.Tx, revision, compacted int64) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var revision, compacted int64
	err = tx.QueryRowContext(ctx, l.query(`UPDATE RESOURCES SET revision = CASE WHEN revision < $1 THEN $1 ELSE revision END + $2
		WHERE resource = $3 RETURNING revision, compacted`), from, step, l.resource).Scan(&revision, &compacted)
	if err == nil {
		err = f(tx, revision, compacted)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (l *changeLog) insert(ctx context.Context, tx *sql.Tx, revision int64, key string, data []byte) error {
	_, err := tx.ExecContext(ctx, l.query(`INSERT INTO CHANGES (resource, revision, name, data) VALUES ($1, $2, $3, $4)`),
		l.resource, revision, key, data)
	return err
}

// errConflict says that an object is in another revision.
var errConflict = errors.New("the object is in another revision")

// append makes a change, and returns its revision, or 0 if the object is in another revision than before. It returns errRefused if the gate
// does not admit the change. A revision is the time, and a
// random step. So a database that was restored, or has lost its latest changes, gives none that replicas and clients know from before.
func (l *changeLog) append(ctx context.Context, key string, before int64, data []byte) (int64, error) {
	var made int64
	err := l.in(ctx, time.Now().UnixNano(), revisions.Step(), func(tx *sql.Tx, revision, _ int64) error {
		if err := l.admit(ctx, tx); err != nil {
			return err
		}
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
		return l.insert(ctx, tx, revision, key, data)
	})
	if errors.Is(err, errConflict) {
		return 0, nil
	}
	return made, err
}

// changes returns the first changes from a revision on, up to another one, and the revision up to which changes are removed. Both are of
// one moment.
func (l *changeLog) changes(ctx context.Context, from, last int64, limit int) (int64, []revisions.Row, error) {
	return l.rows(ctx, `SELECT r.compacted, c.revision, c.name, c.data FROM RESOURCES r
		LEFT JOIN (SELECT resource, revision, name, data FROM CHANGES WHERE resource = $1 AND revision >= $2 AND revision <= $3
		ORDER BY revision LIMIT $4) c ON c.resource = r.resource WHERE r.resource = $1 ORDER BY c.revision`, l.resource, from, last, limit)
}

// objects returns what the objects were at the earliest revision that the changes reach back to, and that.
func (l *changeLog) objects(ctx context.Context) (int64, []revisions.Row, error) {
	return l.rows(ctx, `SELECT r.compacted, c.revision, c.name, c.data FROM RESOURCES r
		LEFT JOIN CHANGES c ON c.resource = r.resource AND c.revision <= r.compacted WHERE r.resource = $1 ORDER BY c.revision`, l.resource)
}

// oldest returns the revision of the change after which there are as many as are kept, or 0 if there are not many more than these.
func (l *changeLog) oldest(ctx context.Context, kept int) (int64, error) {
	_, compacted, err := l.state(ctx)
	if err != nil {
		return 0, err
	}
	at := func(after int) (revision int64, err error) {
		err = l.db.QueryRowContext(ctx, l.query(`SELECT revision FROM CHANGES WHERE resource = $1 AND revision > $2
			ORDER BY revision DESC LIMIT 1 OFFSET $3`), l.resource, compacted, after).Scan(&revision)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return revision, err
	}
	if many, err := at(kept + surplus(kept)); many == 0 || err != nil {
		return 0, err
	}
	return at(kept)
}

// compact removes what later changes, up to a revision, have replaced. It does nothing if another replica has compacted as far. It looks
// only at objects that have changed since the last compaction, because writers wait for it.
func (l *changeLog) compact(ctx context.Context, revision int64) error {
	return l.in(ctx, 0, 0, func(tx *sql.Tx, _, compacted int64) error {
		if compacted >= revision {
			return nil
		}
		_, err := tx.ExecContext(ctx, l.query(`DELETE FROM CHANGES WHERE resource = $1 AND revision <= $2
			AND name IN (SELECT name FROM CHANGES recent WHERE recent.resource = $1 AND recent.revision > $3 AND recent.revision <= $2)
			AND (data IS NULL OR EXISTS (SELECT 1 FROM CHANGES later WHERE later.resource = $1 AND later.name = CHANGES.name
			AND later.revision > CHANGES.revision AND later.revision <= $2))`), l.resource, revision, compacted)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, l.query(`UPDATE RESOURCES SET compacted = $1 WHERE resource = $2`), revision, l.resource)
		return err
	})
}

// mark makes the next revision, which changes no object.
func (l *changeLog) mark(ctx context.Context) error {
	return l.in(ctx, 0, 1, func(tx *sql.Tx, revision, _ int64) error { return l.insert(ctx, tx, revision, "", nil) })
}

// rows reads the answer to a statement about compacted, and changes.
func (l *changeLog) rows(ctx context.Context, statement string, args ...any) (compacted int64, found []revisions.Row, err error) {
	rows, err := l.db.QueryContext(ctx, l.query(statement), args...)
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close() //nolint:errcheck // Err has what is wrong
	exists := false
	for rows.Next() {
		exists = true
		var revision sql.NullInt64
		var name sql.NullString
		var data []byte
		if err := rows.Scan(&compacted, &revision, &name, &data); err != nil {
			return 0, nil, err
		}
		if revision.Valid {
			found = append(found, revisions.Row{Revision: revision.Int64, Key: name.String, Data: data})
		}
	}
	if err := rows.Err(); err != nil {
		return 0, nil, err
	}
	if !exists {
		return 0, nil, fmt.Errorf("the row of %s in %s_resources is gone: restart the service", l.resource, l.table)
	}
	return compacted, found, nil
}
