// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// mysqlFamily is MySQL and MariaDB.
type mysqlFamily struct{}

func (mysqlFamily) Name() string { return "mysql" }

func (mysqlFamily) open(location string) (write, read *sql.DB, err error) {
	return openServer(location, openMySQL)
}

func (mysqlFamily) validate(location string) error {
	_, err := mysqlConnector(location)
	return err
}

func openMySQL(location string) (*sql.DB, error) {
	connector, err := mysqlConnector(location)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func mysqlConnector(location string) (driver.Connector, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("mysql: the URL of the database cannot be parsed") // the error has the password
	}
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", u.Host
	if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	if socket := u.Query().Get("socket"); socket != "" {
		config.Net, config.Addr = "unix", socket
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.DBName = strings.TrimPrefix(u.Path, "/")
	config.TLSConfig = u.Query().Get("tls")
	// A statement that changes a row to what it was counts that row, as in other databases.
	config.ClientFoundRows = true
	config.Collation = "utf8mb4_bin"
	config.DialFunc = noticing((&net.Dialer{}).DialContext)
	config.InterpolateParams = false
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	return connector, nil
}

func (mysqlFamily) closeIdle(write *sql.DB) { closeIdleWriters(write) }

func (mysqlFamily) readIsolation() sql.IsolationLevel { return sql.LevelRepeatableRead }

// limitWork bounds the time of statements. A server whose client has gone away would work on. The first comment is for MariaDB only, and
// the second for MySQL only.
func (mysqlFamily) limitWork(ctx context.Context, t *Tx) error {
	seconds := int(StatementTimeout.Seconds())
	_, err := t.Exec(ctx, t.SQL(fmt.Sprintf(
		"SET /*M!100101 max_statement_time = %d, */ /*!50708 max_execution_time = %d, */ @search = 1", seconds, 1000*seconds)))
	return err
}

func (mysqlFamily) ShareWork(context.Context, *Tx) error { return nil }

func (mysqlFamily) ReadInOrder(context.Context, *Tx) error { return nil }

func (mysqlFamily) analysis() []string {
	return []string{"ANALYZE TABLE objects, owners, labels, streams"}
}

// LockSchema takes a lock of the connection: each statement of a migration commits by itself.
func (mysqlFamily) LockSchema(ctx context.Context, conn *sql.Conn) (unlock func(error) error, err error) {
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

// mysqlRefusals are the numbers of MySQL's and MariaDB's errors about values.
var mysqlRefusals = []uint16{
	1048, // a column cannot be null
	1062, // duplicate entry
	1153, // the packet is too large
	1264, // out of range
	1366, // incorrect value, such as text that is not UTF-8
	1406, // too long
	3140, // invalid JSON
	3141, // invalid JSON
	3157, // JSON that is nested too deep
	3150, // JSON that is too long
	1292, // a value of the wrong type
	1300, // text that is not UTF-8
	1301, // the result of a function is too large
	1118, // a row that is too large
	1071, // an entry of an index that is too large
	4025, // a constraint of MariaDB, such as valid JSON
}

// isRefusal is true of data exceptions and integrity constraints. Not all errors have a state of their own.
func (mysqlFamily) isRefusal(err error) bool {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		state := string(my.SQLState[:2])
		return state == "22" || state == "23" || slices.Contains(mysqlRefusals, my.Number)
	}
	return errors.Is(err, mysql.ErrPktTooLarge)
}

func (mysqlFamily) isTimeout(err error) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) && (my.Number == 1969 || my.Number == 3024)
}

// mysqlTroubles are the numbers of MySQL's and MariaDB's errors about itself: disks, connections, locks, shutdown, and being read-only.
var mysqlTroubles = []uint16{
	1021, 1030, 1037, 1038, 1040, 1041, 1053, 1114, 1135, 1158, 1159, 1160, 1161, 1180, 1203, 1205, 1206, 1213, 1226, 1290, 1317, 1792, 1836,
	3024,
}

func (mysqlFamily) mayBeRefusal(err error) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) && !slices.Contains(mysqlTroubles, my.Number)
}

func (mysqlFamily) rows(s *Statement, rows [][]any)       { valuesOf(s, rows) }
func (mysqlFamily) OnConflict(string) string              { return " ON DUPLICATE KEY UPDATE " }
func (mysqlFamily) Inserted(column string) string         { return "VALUES(" + column + ")" }
func (mysqlFamily) orNothing() string                     { return " ON DUPLICATE KEY UPDATE id = id" }
func (mysqlFamily) seeOthers() string                     { return " LOCK IN SHARE MODE" }
func (mysqlFamily) LockRows() string                      { return " FOR UPDATE" }
func (mysqlFamily) ShareRows() string                     { return " LOCK IN SHARE MODE" }
func (mysqlFamily) ReusesIDs() bool                       { return false }
func (mysqlFamily) LabelsAreColumn() bool                 { return false }
func (mysqlFamily) placeholder(t *strings.Builder, _ int) { t.WriteByte('?') }
func (mysqlFamily) beforePairs() string                   { return "(" }
func (mysqlFamily) ComparesRows() bool                    { return false }
func (mysqlFamily) UnpacksObjects() bool                  { return false }
func (mysqlFamily) FindsFields() bool                     { return false }
func (mysqlFamily) SizeOf(column string) string           { return "LENGTH(" + column + ")" }

// DeleteSome limits a DELETE, which the others cannot. MySQL cannot select from what it deletes from.
func (d mysqlFamily) DeleteSome(table, _ string, limit int, which string, values ...any) *Statement {
	return SQL(d, "DELETE FROM "+table+" WHERE "+which, values...).Add(" LIMIT ?", limit)
}

func (mysqlFamily) anyOf(s *Statement, ids []int64) *Statement { return List(s.Add(" IN "), ids) }

func (d mysqlFamily) FindObjects(columns string, kindID, clusterID int64, keys [][2]string) *Statement {
	return findByPairs(d, columns, kindID, clusterID, keys)
}

func (mysqlFamily) Contains(s *Statement, column, part string) {
	s.Add(" AND LOCATE(?, "+column+") > 0", part)
}

func (mysqlFamily) WithoutKey(column, key string) string {
	return "JSON_REMOVE(" + column + ", '$." + key + "')"
}

func (mysqlFamily) FindsByTerms(labels.Requirement, int) bool { return false }

func (mysqlFamily) Label(s *Statement, r labels.Requirement, kinds []int64) {
	labelInTable(s, r, kinds, func(column string) (digits, significant string) {
		return column + " NOT REGEXP '[^0-9]'", "TRIM(LEADING '0' FROM " + column + ")"
	})
}

func (mysqlFamily) LabelHasWord(s *Statement, word string) { wordInLabels(s, word) }

func (mysqlFamily) mayHaveWord(*Statement, string) bool { return false }

func (mysqlFamily) textMayHave(s *Statement, texts []string, ignoreCase bool) bool {
	if ignoreCase {
		return false // LOWER of the whole text takes most of the time
	}
	for i, text := range texts {
		s.Add(Separator(i, "(", " OR ")+"LOCATE(CAST(? AS BINARY), CAST(o.object AS BINARY)) > 0", text)
	}
	s.Add(")")
	return true
}

func (mysqlFamily) contained(*Statement, query.Condition) (appended, exact bool) { return false, false }

// binary compares bytes: MySQL and MariaDB would not see blanks at the end of texts.
func (mysqlFamily) binary(s *Statement, text func()) func() {
	return func() { s.with("CAST(", text).Add(" AS BINARY)") }
}

// lower replaces letters: LOWER would change others, too.
func (d mysqlFamily) lower(s *Statement, values []string, text func()) func() {
	text = d.binary(s, text)
	for letter := 'a'; letter <= 'z'; letter++ {
		if strings.ContainsRune(strings.Join(values, ""), letter) {
			within := text
			text = func() { s.with("REPLACE(", within).Add(fmt.Sprintf(", '%c', '%c')", letter-'a'+'A', letter)) }
		}
	}
	return text
}

func (mysqlFamily) position(s *Statement, text func(), value string) {
	s.Add("LOCATE(CAST(? AS BINARY), ", value).with("", text).Add(")")
}

// valueAt appends the value at a path of a JSON value, or NULL. [0] of a value that is no list would be this value.
func (mysqlFamily) valueAt(s *Statement, in string, path []query.Step) {
	s.Add("(CASE WHEN 1 = 1")
	for i, step := range path {
		if step.List() {
			s.Add(" AND COALESCE(JSON_TYPE(JSON_EXTRACT("+in+", ?)), '') = 'ARRAY'", JSONPath(path[:i]))
		}
	}
	s.Add(" THEN JSON_EXTRACT("+in+", ?) END)", JSONPath(path))
}

func (d mysqlFamily) text(s *Statement, path []query.Step) { d.textIn(s, "o.object", path) }

// textIn appends the text of a scalar field of a JSON value.
func (d mysqlFamily) textIn(s *Statement, in string, path []query.Step) {
	s.Add("(CASE JSON_TYPE(")
	d.valueAt(s, in, path)
	s.Add(") WHEN 'OBJECT' THEN CHAR(1) WHEN 'ARRAY' THEN CHAR(1) WHEN 'NULL' THEN NULL ELSE CONVERT(JSON_UNQUOTE(")
	d.valueAt(s, in, path)
	s.Add(") USING utf8mb4) END)")
}

func (d mysqlFamily) elements(s *Statement, c query.Condition) { elementsOf(d, s, c) }

func (mysqlFamily) list(s *Statement, name string, value func()) {
	s.Add("JSON_TABLE(CASE JSON_TYPE(")
	value()
	s.Add(") WHEN 'ARRAY' THEN ")
	value()
	s.Add(" ELSE '[]' END, '$[*]' COLUMNS (v JSON PATH '$')) " + name)
}

// whole has a pattern end at the end of a text. Its $ would also be before a line break at the end: \n in MariaDB, and in MySQL all those
// of Unicode.
func whole(pattern string) string { return strings.TrimSuffix(pattern, "$") + `\z` }

// rankNumber never converts a text that is no number. A text in place of a number is the number that it begins with.
func (mysqlFamily) rankNumber(s *Statement, text func(*Statement)) {
	with := func(before, after string, values ...any) {
		text(s.Add(before))
		s.Add(after, values...)
	}
	with("(CASE WHEN CHAR_LENGTH(COALESCE(", fmt.Sprintf(", '')) = 0 THEN %g WHEN ", query.NoNumber)) // blanks are equal to nothing
	with("", " COLLATE utf8mb4_bin REGEXP ? THEN (", whole(query.NumberPattern))
	with("", " + 0e0)")
	double := func(number float64) string { return fmt.Sprintf("%.0fe0", number) }
	byUnits(s, func() { with("REGEXP_SUBSTR(", " COLLATE utf8mb4_bin, '[A-Za-z]+$')") }, double)
	s.Add(fmt.Sprintf(" ELSE %g END)", query.AnyText))
}

func (mysqlFamily) rankText(s *Statement, text func(*Statement)) {
	text(s.Add("CAST(LEFT(COALESCE("))
	s.Add(fmt.Sprintf(", ''), %d) AS BINARY)", query.RankLength))
}

func (mysqlFamily) moment(s *Statement, text func(*Statement)) {
	text(s.Add("(CASE WHEN "))
	text(s.Add(" COLLATE utf8mb4_bin REGEXP ? THEN CAST(REGEXP_REPLACE(", whole(query.MomentPattern)))
	s.Add(", ?, '') AS BINARY) END)", "["+query.MomentEnd+"]+$")
}
