// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	sqlitedriver "modernc.org/sqlite"
	sqlitecodes "modernc.org/sqlite/lib"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// sqlite is SQLite: a file, with one writer at a time.
type sqlite struct{}

func (sqlite) Name() string { return "sqlite" }

// busyTimeout is how long a writer of SQLite waits for another one.
const busyTimeout = 10 * time.Second

func (sqlite) validate(location string) error {
	_, err := sqliteFile(location)
	return err
}

func sqliteFile(location string) (string, error) {
	_, path, _ := strings.Cut(location, ":")
	if path = strings.TrimPrefix(path, "//"); path == "" {
		return "", errors.New("sqlite: needs a file, as in sqlite:/var/lib/search.db")
	}
	return path, nil
}

// open has one connection that writes, because SQLite has one writer at a time, and several that read beside it.
func (sqlite) open(location string) (write, read *sql.DB, err error) {
	path, err := sqliteFile(location)
	if err != nil {
		return nil, nil, err
	}
	// Copies of objects are for search only. SQLite gives its other files the mode of this one.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("sqlite: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, nil, fmt.Errorf("sqlite: %w", err)
	}
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)", "synchronous(NORMAL)",
	}}
	name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}).String()
	if write, err = sql.Open("sqlite", name); err != nil {
		return nil, nil, err
	}
	write.SetMaxOpenConns(1)
	if read, err = sql.Open("sqlite", name); err != nil {
		return nil, nil, err
	}
	read.SetMaxOpenConns(MaxReaders)
	read.SetMaxIdleConns(4)
	return write, read, nil
}

func (sqlite) closeIdle(*sql.DB) {}

func (sqlite) readIsolation() sql.IsolationLevel { return sql.LevelDefault } // it has no other

func (sqlite) limitWork(context.Context, *Tx) error { return nil } // it stops with the context

func (sqlite) ShareWork(context.Context, *Tx) error { return nil }

func (sqlite) ReadInOrder(context.Context, *Tx) error { return nil }

// analysis is needed, because SQLite never analyzes by itself.
func (sqlite) analysis() []string { return []string{"PRAGMA analysis_limit = 1000", "ANALYZE"} }

// LockSchema begins a transaction, in which the migration runs.
func (sqlite) LockSchema(ctx context.Context, conn *sql.Conn) (unlock func(error) error, err error) {
	_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	return endOf(ctx, conn), err
}

// endOf ends a transaction.
func endOf(ctx context.Context, conn *sql.Conn) func(failed error) error {
	return func(failed error) error {
		last := "COMMIT"
		if failed != nil {
			last = "ROLLBACK"
		}
		_, err := conn.ExecContext(context.WithoutCancel(ctx), last)
		return err
	}
}

func (sqlite) isRefusal(err error) bool {
	var lite *sqlitedriver.Error
	if !errors.As(err, &lite) {
		return false
	}
	switch lite.Code() & 0xff {
	case sqlitecodes.SQLITE_TOOBIG, sqlitecodes.SQLITE_CONSTRAINT, sqlitecodes.SQLITE_MISMATCH:
		return true
	}
	return false
}

func (sqlite) isTimeout(error) bool { return false }

func (sqlite) mayBeRefusal(err error) bool {
	var lite *sqlitedriver.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlitecodes.SQLITE_ERROR
}

func (sqlite) rows(s *Statement, rows [][]any)       { valuesOf(s, rows) }
func (sqlite) OnConflict(key string) string          { return onConflict(key) }
func (sqlite) Inserted(column string) string         { return excluded(column) }
func (sqlite) orNothing() string                     { return conflictIgnored }
func (sqlite) seeOthers() string                     { return "" }
func (sqlite) LockRows() string                      { return "" }
func (sqlite) ShareRows() string                     { return "" }
func (sqlite) ReusesIDs() bool                       { return true }
func (sqlite) LabelsAreColumn() bool                 { return false }
func (sqlite) placeholder(t *strings.Builder, _ int) { t.WriteByte('?') }
func (sqlite) beforePairs() string                   { return "(VALUES " }
func (sqlite) ComparesRows() bool                    { return true }
func (sqlite) UnpacksObjects() bool                  { return false }
func (sqlite) FindsFields() bool                     { return false }
func (sqlite) SizeOf(column string) string           { return "octet_length(" + column + ")" }

func (d sqlite) DeleteSome(table, key string, limit int, which string, values ...any) *Statement {
	return deleteByKey(d, table, key, limit, which, values...)
}

func (sqlite) anyOf(s *Statement, ids []int64) *Statement { return List(s.Add(" IN "), ids) }

func (d sqlite) FindObjects(columns string, kindID, clusterID int64, keys [][2]string) *Statement {
	return findByPairs(d, columns, kindID, clusterID, keys)
}

func (sqlite) Contains(s *Statement, column, part string) {
	s.Add(" AND instr("+column+", ?) > 0", part)
}

func (sqlite) WithoutKey(column, key string) string {
	return "json_remove(" + column + ", '$." + key + "')"
}

func (sqlite) FindsByTerms(labels.Requirement, int) bool { return false }

func (sqlite) Label(s *Statement, r labels.Requirement, kinds []int64) {
	labelInTable(s, r, kinds, func(column string) (digits, significant string) {
		return column + " NOT GLOB '*[^0-9]*'", "LTRIM(" + column + ", '0')"
	})
}

func (sqlite) LabelHasWord(s *Statement, word string) { wordInLabels(s, word) }

func (sqlite) mayHaveWord(*Statement, string) bool { return false }

func (sqlite) textMayHave(s *Statement, texts []string, ignoreCase bool) bool {
	column := "o.object"
	if ignoreCase {
		column = "lower(o.object)"
	}
	for i, text := range texts {
		s.Add(Separator(i, "(", " OR ")+"instr("+column+", ?) > 0", text)
		column = "o.object"
	}
	s.Add(")")
	return true
}

func (sqlite) contained(*Statement, query.Condition) (appended, exact bool) { return false, false }

func (sqlite) binary(_ *Statement, text func()) func() { return text }

func (sqlite) lower(s *Statement, _ []string, text func()) func() {
	return func() { s.with("lower(", text).Add(")") }
}

func (sqlite) position(s *Statement, text func(), value string) {
	s.with("instr(", text).Add(", ?)", value)
}

// sqliteObject is an object in which SQLite finds nothing rather than fail, if it is none that SQLite can read: an older version of search
// may have written it, with more than 1,000 levels.
const sqliteObject = "CASE WHEN json_valid(o.object) THEN o.object ELSE '{}' END"

func (d sqlite) text(s *Statement, path []query.Step) {
	d.textAt(s, func() { s.bind(JSONPath(path)) })
}

// textAt appends the text of a scalar field, whose path is appended by at.
func (sqlite) textAt(s *Statement, at func()) {
	s.with("(CASE json_type("+sqliteObject+", ", at).Add(") WHEN 'true' THEN 'true' WHEN 'false' THEN 'false'" +
		" WHEN 'object' THEN char(1) WHEN 'array' THEN char(1) ELSE CAST(json_extract(" + sqliteObject + ", ")
	at()
	s.Add(") AS TEXT) END)")
}

// elements makes one table of each list. The path of an element is in the column fullkey. (SQLite 3.51 makes joins of EXISTS, and then
// OFFSET counts an object once for each of its elements. A subquery with a limit stays as it is.)
func (d sqlite) elements(s *Statement, c query.Condition) {
	s.Add("((SELECT 1 FROM ")
	var conditions []string
	path, parent := c.Path, ""
	for i := 0; ; i++ {
		next := indexOfEvery(path)
		if next < 0 {
			break
		}
		table := "e" + strconv.Itoa(i)
		s.Add(Separator(i, "", ", ") + "json_each(" + sqliteObject + ", ")
		below(s, parent, path[:next])
		s.Add(") " + table)
		conditions = append(conditions, "typeof("+table+".key) = 'integer'")
		parent, path = table, path[next+1:]
	}
	s.Add(" WHERE " + strings.Join(conditions, " AND ") + " AND ")
	at := func() { below(s, parent, path) }
	text := func() { d.textAt(s, at) }
	if c.Exists {
		text()
		s.Add(" IS NOT NULL LIMIT 1) IS NOT NULL)")
		return
	}
	s.compare(c, func() {
		s.with("CASE json_type("+sqliteObject+", ", at).Add(") WHEN 'null' THEN '' ELSE ")
		text()
		s.Add(" END")
	})
	s.Add(" LIMIT 1) IS NOT NULL)")
}

// below appends a path below an element of a table, or below the object.
func below(s *Statement, table string, path []query.Step) {
	if table == "" {
		s.bind(JSONPath(path))
		return
	}
	s.Add(table+".fullkey || ?", strings.TrimPrefix(JSONPath(path), "$"))
}

// rankFunction is the name of a function of SQLite that has the number of query.RankOf. SQLite has no regular expressions, and rounds
// numbers in its own way.
const rankFunction = "search_rank"

// momentFunction is the name of a function of SQLite that has query.MomentOf.
const momentFunction = "search_moment"

func init() {
	sqlitedriver.MustRegisterDeterministicScalarFunction(rankFunction, 1,
		func(_ *sqlitedriver.FunctionContext, args []driver.Value) (driver.Value, error) {
			text, _ := args[0].(string)
			return query.RankOf(text).Number, nil
		})
	sqlitedriver.MustRegisterDeterministicScalarFunction(momentFunction, 1,
		func(_ *sqlitedriver.FunctionContext, args []driver.Value) (driver.Value, error) {
			text, _ := args[0].(string)
			if moment := query.MomentOf(text); moment != "" {
				return moment, nil
			}
			return nil, nil
		})
}

func (sqlite) moment(s *Statement, text func(*Statement)) {
	text(s.Add(momentFunction + "("))
	s.Add(")")
}

func (sqlite) rankNumber(s *Statement, text func(*Statement)) {
	text(s.Add(rankFunction + "("))
	s.Add(")")
}

func (sqlite) rankText(s *Statement, text func(*Statement)) {
	text(s.Add("substr(COALESCE("))
	s.Add(fmt.Sprintf(", ''), 1, %d)", query.RankLength))
}
