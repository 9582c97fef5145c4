// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schema has the tables of the store, as migrations for each dialect, and brings databases to them.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// files has the migrations, DIALECT/NUMBER.sql. A migration that was released is never changed: a later one corrects it. MySQL commits each
// statement by itself, so there a migration must bear to be run again after it has failed.
//
//go:embed mysql postgres sqlite
var files embed.FS

// Migrate brings a database to the schema of this binary. Replicas take turns. It refuses a database with a newer schema.
func Migrate(ctx context.Context, db *database.DB) error {
	migrations, err := Migrations(db)
	if err != nil {
		return err
	}
	return Apply(ctx, db, migrations)
}

// Apply applies those of the migrations that a database lacks.
func Apply(ctx context.Context, db *database.DB, migrations [][]string) error {
	conn, err := db.Writer().Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	unlock, err := db.LockSchema(ctx, conn)
	if err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	err = migrate(ctx, db, conn, migrations)
	if failed := unlock(err); err == nil {
		err = failed
	}
	return err
}

func migrate(ctx context.Context, db *database.DB, conn *sql.Conn, migrations [][]string) error {
	if _, err := conn.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)"); err != nil {
		return err
	}
	var has sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT MAX(version) FROM schema_version").Scan(&has); err != nil {
		return err
	}
	if int(has.Int64) > len(migrations) {
		return fmt.Errorf("the database has schema %d, and this program knows schemas up to %d:"+
			" use the version of tripod-search that wrote it, or a newer one", has.Int64, len(migrations))
	}
	for number := int(has.Int64) + 1; number <= len(migrations); number++ {
		for _, text := range migrations[number-1] {
			if _, err := conn.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("schema %d: %w", number, err)
			}
		}
		done := database.SQL(db.Dialect, "INSERT INTO schema_version (version) VALUES (?)", number)
		if _, err := conn.ExecContext(ctx, done.Text(), done.Values()...); err != nil {
			return err
		}
	}
	return nil
}

// Migrations returns the statements of each migration for a database, in their order.
func Migrations(db *database.DB) ([][]string, error) {
	paths, err := fs.Glob(files, db.Name()+"/*.sql")
	if err != nil {
		return nil, err
	}
	var all [][]string
	for _, path := range paths {
		text, err := files.ReadFile(path)
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
