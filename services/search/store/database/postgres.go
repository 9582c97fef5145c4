// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
)

// postgres is PostgreSQL.
type postgres struct{}

func (postgres) Name() string { return "postgres" }

func (postgres) open(location string) (write, read *sql.DB, err error) {
	return openServer(location, openPostgres)
}

func (postgres) validate(location string) error {
	_, err := postgresConfig(location)
	return err
}

func postgresConfig(location string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(location)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // pgx leaves the password out
	}
	return config, nil
}

func openPostgres(location string) (*sql.DB, error) {
	config, err := postgresConfig(location)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = "tripod-search"
	config.DialFunc = pgconn.DialFunc(noticing(dialFunc(config.DialFunc)))
	pooler := &pooler{}
	before := func(_ context.Context, c *pgx.ConnConfig) error {
		pooler.configure(c)
		// Files of certificates may have been renewed.
		renewed, err := pgx.ParseConfig(location)
		if err == nil {
			c.TLSConfig, c.Fallbacks = renewed.TLSConfig, renewed.Fallbacks
		}
		return err
	}
	return stdlib.OpenDB(*config, stdlib.OptionAfterConnect(pooler.look), stdlib.OptionBeforeConnect(before)), nil
}

func (postgres) closeIdle(write *sql.DB) { closeIdleWriters(write) }

func (postgres) readIsolation() sql.IsolationLevel { return sql.LevelRepeatableRead }

// workMemory is what PostgreSQL may take for one step of a search before it forgets which objects of a page an index has named.
const workMemory = "32MB"

// limitWork sets what a search may take of PostgreSQL. A server whose client has gone away would work on. One that expects millions of rows
// has other processes help, and compiles the statement: that costs more than most searches, which read an index and few rows. Of 1,000,000
// objects, it finds 500 of 12,000 with a label in 26 ms rather than 62.
func (postgres) limitWork(ctx context.Context, t *Tx) error {
	_, err := t.Exec(ctx, t.SQL("SELECT set_config('statement_timeout', ?, true), set_config('work_mem', ?, true),"+
		" set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)", StatementTimeout.String(), workMemory))
	return err
}

// ShareWork is for a search by fields, or by the order of fields, because that unpacks many objects to compare them.
func (postgres) ShareWork(ctx context.Context, t *Tx) error {
	_, err := t.Exec(ctx, t.SQL("SET LOCAL max_parallel_workers_per_gather TO DEFAULT"))
	return err
}

// ReadInOrder is for what many objects have, which the planner does not know.
func (postgres) ReadInOrder(ctx context.Context, t *Tx) error {
	_, err := t.Exec(ctx, t.SQL("SELECT set_config('enable_sort', 'off', true), set_config('max_parallel_workers_per_gather', '0', true)"))
	return err
}

// analysis leaves documents, labels and the terms of labels to what PostgreSQL does by itself: of 100,000 objects, they take 410 of 525 ms,
// in which writers lack a processor.
func (postgres) analysis() []string {
	return []string{
		"ANALYZE objects (kind_id, cluster_id, namespace, name, uid, resource_version, created_at, revision, listing)",
		"ANALYZE owners", "ANALYZE streams",
	}
}

// LockSchema begins a transaction, in which the migration runs.
func (postgres) LockSchema(ctx context.Context, conn *sql.Conn) (unlock func(error) error, err error) {
	if _, err = conn.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, err
	}
	_, err = conn.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", migrationLock)
	return endOf(ctx, conn), err
}

// isRefusal is true of data exceptions, integrity constraints, and program limits such as the size of an entry of an index.
func (postgres) isRefusal(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) &&
		(strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || strings.HasPrefix(pg.Code, "54"))
}

func (postgres) isTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "57014"
}

func (postgres) mayBeRefusal(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) &&
		!slices.Contains([]string{"08", "25", "28", "40", "53", "55", "57", "58"}, pg.Code[:min(2, len(pg.Code))])
}

// rows appends an array for each column. PostgreSQL takes an array as one value. So a statement about many rows has few values, and the
// same text for any number of rows, which the server parses and plans once for each connection.
func (d postgres) rows(s *Statement, rows [][]any) {
	var selected, names []string
	arrays := SQL(d, "")
	arrays.args = s.args
	for column, value := range rows[0] {
		name := fmt.Sprint("c", column)
		names = append(names, name)
		arrays.text.WriteString(Separator(column, "", ", "))
		switch value.(type) {
		case int64:
			arrays.Add("CAST(? AS bigint[])", columnOf(rows, column, func(v any) int64 { return v.(int64) }))
		case bool:
			arrays.Add("CAST(? AS boolean[])", columnOf(rows, column, func(v any) bool { return v.(bool) }))
		case []byte:
			arrays.Add("CAST(? AS bytea[])", columnOf(rows, column, func(v any) []byte { return v.([]byte) }))
		case Document:
			arrays.Add("CAST(? AS text[])", columnOf(rows, column, func(v any) string { return string(v.(Document)) }))
			name = "CAST(" + name + " AS jsonb)"
		default:
			arrays.Add("CAST(? AS text[])", columnOf(rows, column, func(v any) string { return v.(string) }))
		}
		selected = append(selected, name)
	}
	from := " FROM unnest(" + arrays.text.String() + ") r(" + strings.Join(names, ", ") + ")"
	s.text.WriteString("SELECT " + strings.Join(selected, ", ") + from)
	s.args = arrays.args
}

func columnOf[T any](rows [][]any, column int, as func(any) T) []T {
	values := make([]T, len(rows))
	for i, row := range rows {
		values[i] = as(row[column])
	}
	return values
}

func (postgres) OnConflict(key string) string  { return onConflict(key) }
func (postgres) Inserted(column string) string { return excluded(column) }
func (postgres) orNothing() string             { return conflictIgnored }
func (postgres) seeOthers() string             { return "" }
func (postgres) LockRows() string              { return " FOR UPDATE" }
func (postgres) ShareRows() string             { return " FOR SHARE" }
func (postgres) ReusesIDs() bool               { return false }
func (postgres) LabelsAreColumn() bool         { return true }
func (postgres) beforePairs() string           { return "(" }
func (postgres) ComparesRows() bool            { return true }
func (postgres) UnpacksObjects() bool          { return true }
func (postgres) FindsFields() bool             { return true }
func (postgres) SizeOf(column string) string   { return "pg_column_size(" + column + ")" }

func (d postgres) DeleteSome(table, key string, limit int, which string, values ...any) *Statement {
	return deleteByKey(d, table, key, limit, which, values...)
}

func (postgres) placeholder(text *strings.Builder, n int) {
	text.WriteByte('$')
	text.WriteString(strconv.Itoa(n))
}

func (postgres) anyOf(s *Statement, ids []int64) *Statement {
	return s.Add(" = ANY(CAST(? AS bigint[]))", ids)
}

// FindObjects has the same text for any number of keys, and each of them is looked for in the index, whatever the database estimates of the
// size of the table.
func (d postgres) FindObjects(columns string, kindID, clusterID int64, keys [][2]string) *Statement {
	namespaces, names := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		namespaces[i], names[i] = key[0], key[1]
	}
	return SQL(d, "SELECT "+columns+" FROM unnest(CAST(? AS text[]), CAST(? AS text[])) k(namespace, name), LATERAL"+
		" (SELECT * FROM objects WHERE kind_id = ? AND cluster_id = ? AND namespace = k.namespace AND name = k.name LIMIT 1) o",
		namespaces, names, kindID, clusterID)
}

// likePattern quotes what LIKE gives a meaning to.
var likePattern = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

// Contains uses LIKE, for which PostgreSQL has an index of trigrams, if its extension could be installed.
func (postgres) Contains(s *Statement, column, part string) {
	s.Add(" AND "+column+" LIKE ?", "%"+likePattern.Replace(part)+"%")
}

func (postgres) WithoutKey(column, key string) string {
	return "(CAST(" + column + " AS jsonb) - '" + key + "')"
}

// MaxTerms bounds the terms of a requirement in a statement. They have a megabyte or two.
const MaxTerms = 20_000

// tooManyTerms reports whether a label has so many values for the kinds of a search that PostgreSQL compares the labels of the objects
// instead.
func tooManyTerms(values, kinds int) bool { return kinds*values > MaxTerms }

func (postgres) FindsByTerms(r labels.Requirement, kinds int) bool {
	switch r.Operator() {
	case selection.Exists:
		return true
	case selection.Equals, selection.DoubleEquals, selection.In:
		return !tooManyTerms(len(r.ValuesUnsorted()), kinds)
	}
	return false
}

// Label uses the index of the terms of labels where it can: "KIND LABEL" and "KIND LABEL=VALUE".
func (postgres) Label(s *Statement, r labels.Requirement, kinds []int64) {
	key, values := r.Key(), r.ValuesUnsorted()
	slices.Sort(values)
	//exhaustive:enforce
	switch r.Operator() {
	case selection.Exists:
		hasTerm(s, kinds, []string{key})
	case selection.DoesNotExist:
		s.Add(" AND NOT (o.labels ?? ?)", key)
	case selection.Equals, selection.DoubleEquals, selection.In:
		if tooManyTerms(len(values), len(kinds)) {
			List(s.Add(" AND o.labels ->> ? IN ", key), values)
			return
		}
		pairs := make([]string, len(values))
		for i, value := range values {
			pairs[i] = key + "=" + value
		}
		hasTerm(s, kinds, pairs)
	case selection.NotEquals, selection.NotIn:
		List(s.Add(" AND (o.labels ->> ? IN ", key), values).Add(") IS NOT TRUE")
	case selection.GreaterThan, selection.LessThan:
		s.Add(" AND EXISTS (SELECT 1 FROM (SELECT o.labels ->> ? AS value) l WHERE ", key)
		const value = "l.value"
		compareNumber(s, value+" ~ '^[0-9]+$'", "TRIM(LEADING '0' FROM "+value+")", r.Operator(), values[0])
		s.Add(")")
	}
}

// LabelHasWord reads the labels, which no index has by their parts.
func (postgres) LabelHasWord(s *Statement, word string) {
	s.Add("EXISTS (SELECT 1 FROM jsonb_each_text(o.labels) l(label, value) WHERE ")
	s.HasWord(word, "l.label", "l.value")
	s.Add(")")
}

// hasTerm appends that an object is of one of the kinds and has one of the labels. The index knows exactly that, so that no object is
// compared.
func hasTerm(s *Statement, kinds []int64, labels []string) {
	var terms []string
	for _, kind := range kinds {
		for _, label := range labels {
			terms = append(terms, fmt.Sprint(kind, " ", label))
		}
	}
	s.Add(" AND label_terms(o.kind_id, o.labels) && CAST(? AS text[])", terms)
}

// mayHaveWord uses the index of trigrams, if its extension could be installed.
func (postgres) mayHaveWord(s *Statement, word string) bool {
	s.Add("o.words LIKE ?", "%"+likePattern.Replace(word)+"%")
	return true
}

func (postgres) textMayHave(*Statement, []string, bool) bool { return false }

// contained appends what the index of documents has.
func (postgres) contained(s *Statement, c query.Condition) (appended, exact bool) {
	exact = !slices.ContainsFunc(c.Path, func(step query.Step) bool { return step.List() && step.Index >= 0 })
	n := 0
	either := func(value any) {
		for _, step := range slices.Backward(c.Path) {
			if step.List() {
				value = []any{value}
			} else {
				value = map[string]any{objectjson.FieldName(step.Name): value}
			}
		}
		text, _ := json.Marshal(value) // it was made of texts and valid JSON
		s.Add(Separator(n, "(", " OR ")+"o.object @> CAST(? AS jsonb)", string(text))
		n++
	}
	for _, value := range c.Values {
		either(query.Speakable(value))
		if objectjson.IsScalar(value) {
			exact = false // an older version of search has written other numbers than integers, of which several texts are equal
			either(json.RawMessage(value))
		}
	}
	s.Add(")")
	return true, exact
}

func (postgres) binary(_ *Statement, text func()) func() { return text }

func (postgres) lower(s *Statement, _ []string, text func()) func() {
	return func() { s.with("lower(", text).Add(` COLLATE "C")`) }
}

func (postgres) position(s *Statement, text func(), value string) {
	s.with("strpos(", text).Add(", ?)", value)
}

// valueAt appends the value at a path of a JSON value, or NULL.
//
// The operator #> takes a number for a place in a list or for a name, whichever fits. So a path with numbers is a strict one of jsonpath,
// which does not take longer than that by much.
func (postgres) valueAt(s *Statement, in string, path []query.Step) {
	if slices.ContainsFunc(path, func(step query.Step) bool { return step.List() || isPlace(step.Name) }) {
		s.Add("jsonb_path_query_first("+in+", CAST(? AS jsonpath), '{}', true)", "strict "+JSONPath(path))
		return
	}
	names := make([]string, 0, len(path))
	for _, step := range path {
		names = append(names, objectjson.FieldName(step.Name))
	}
	s.Add(in+" #> ?", names)
}

// isPlace reports whether PostgreSQL may take a name for a place in a list.
func isPlace(name string) bool {
	return strings.Trim(name, "+-0123456789 \t\n\v\f\r") == ""
}

func (d postgres) text(s *Statement, path []query.Step) { d.textIn(s, "o.object", path) }

// textIn appends the text of a scalar field of a JSON value.
func (d postgres) textIn(s *Statement, in string, path []query.Step) {
	s.Add("(CASE WHEN jsonb_typeof(")
	d.valueAt(s, in, path)
	s.Add(") IN ('object', 'array') THEN chr(1) ELSE (")
	d.valueAt(s, in, path)
	s.Add(") #>> '{}' END)")
}

func (d postgres) elements(s *Statement, c query.Condition) { elementsOf(d, s, c) }

func (postgres) list(s *Statement, name string, value func()) {
	s.Add("jsonb_array_elements(CASE jsonb_typeof(")
	value()
	s.Add(") WHEN 'array' THEN ")
	value()
	s.Add(" ELSE '[]' END) " + name + "(v)")
}

func (postgres) rankNumber(s *Statement, text func(*Statement)) {
	with := func(before, after string, values ...any) {
		text(s.Add(before))
		s.Add(after, values...)
	}
	with("(CASE WHEN CHAR_LENGTH(COALESCE(", fmt.Sprintf(", '')) = 0 THEN %g WHEN ", query.NoNumber))
	with("", " ~ ? THEN ", query.NumberPattern)
	with("CAST(substring(", " from ?) AS double precision)", query.NumberPattern) // its first group
	double := func(number float64) string { return fmt.Sprintf("CAST(%.0f AS double precision)", number) }
	byUnits(s, func() { with("substring(", " from '[A-Za-z]+$')") }, double)
	s.Add(fmt.Sprintf(" ELSE %g END)", query.AnyText))
}

func (postgres) rankText(s *Statement, text func(*Statement)) {
	text(s.Add("left(COALESCE("))
	s.Add(fmt.Sprintf(`, ''), %d) COLLATE "C"`, query.RankLength))
}

func (postgres) moment(s *Statement, text func(*Statement)) {
	text(s.Add("(CASE WHEN "))
	text(s.Add(" ~ ? THEN rtrim(", query.MomentPattern))
	s.Add(`, ?) COLLATE "C" END)`, query.MomentEnd)
}
