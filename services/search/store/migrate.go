// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// schemas has the migrations, DIALECT/NUMBER.sql. A migration that was released is never changed: a later one corrects it. MySQL commits each
// statement by itself, so there a migration must bear to be run again after it has failed.
//
//go:embed schema
var schemas embed.FS

// migrationLock is what replicas lock while they migrate.
const migrationLock = "tripod-search-schema"

// Migrate brings the database to the schema of this binary. Replicas take turns. It refuses a database with a newer schema.
func (s *Store) Migrate(ctx context.Context) error {
	migrations, err := s.dialect.migrations()
	if err != nil {
		return err
	}
	return s.migrateTo(ctx, migrations)
}

// migrateTo applies those of the migrations that the database lacks.
func (s *Store) migrateTo(ctx context.Context, migrations [][]string) error {
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	unlock, err := s.lock(ctx, conn)
	if err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	err = s.migrate(ctx, conn, migrations)
	if failed := unlock(err); err == nil {
		err = failed
	}
	return err
}

// lock returns when no other replica migrates. SQLite and PostgreSQL migrate in one transaction.
func (s *Store) lock(ctx context.Context, conn *sql.Conn) (unlock func(error) error, err error) {
	end := func(failed error) error {
		last := "COMMIT"
		if failed != nil {
			last = "ROLLBACK"
		}
		_, err := conn.ExecContext(context.WithoutCancel(ctx), last)
		return err
	}
	switch s.dialect {
	case sqlite:
		_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		return end, err
	case postgres:
		if _, err = conn.ExecContext(ctx, "BEGIN"); err != nil {
			return nil, err
		}
		_, err = conn.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", migrationLock)
		return end, err
	}
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 600)", migrationLock).Scan(&got); err != nil {
		return nil, err
	}
	if got.Int64 != 1 {
		return nil, fmt.Errorf("another replica has held it for 10 minutes")
	}
	return func(error) error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK(?)", migrationLock)
		return err
	}, nil
}

func (s *Store) migrate(ctx context.Context, conn *sql.Conn, migrations [][]string) error {
	if _, err := conn.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)"); err != nil {
		return err
	}
	var has sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT MAX(version) FROM schema_version").Scan(&has); err != nil {
		return err
	}
	if int(has.Int64) > len(migrations) {
		return fmt.Errorf("the database has schema %d, and this program knows schemas up to %d: use the version of tripod-search that wrote it, or a newer one",
			has.Int64, len(migrations))
	}
	for number := int(has.Int64) + 1; number <= len(migrations); number++ {
		for _, text := range migrations[number-1] {
			if _, err := conn.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("schema %d: %w", number, err)
			}
		}
		done := s.dialect.sql("INSERT INTO schema_version (version) VALUES (?)", number)
		if _, err := conn.ExecContext(ctx, done.text.String(), done.args...); err != nil {
			return err
		}
	}
	return nil
}

// migrations returns the statements of each migration, in their order.
func (d dialect) migrations() ([][]string, error) {
	files, err := fs.Glob(schemas, "schema/"+string(d)+"/*.sql")
	if err != nil {
		return nil, err
	}
	var all [][]string
	for _, file := range files {
		text, err := schemas.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var statements []string
		for statement := range strings.SplitSeq(string(text), ";\n") {
			if strings.TrimSpace(statement) != "" {
				statements = append(statements, statement)
			}
		}
		all = append(all, statements)
	}
	return all, nil
}
