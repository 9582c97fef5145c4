// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"database/sql/driver"
	"fmt"
	"strings"

	sqlitedriver "modernc.org/sqlite"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// byField returns the keys of an order by a field: those of query.Rank. The databases compute the number of a text in floating point from the same parts as
// query.RankOf, so all of them have the same.
func (b *search) byField(path []query.Step) []sortKey {
	text := func(s *statement) { b.text(s, path) }
	name := jsonPath(path)
	return []sortKey{
		{column: "number " + name, of: func(e *entry) any { return e.rank(path).Number }, expression: func(s *statement) { s.rankNumber(text) }},
		{column: "text " + name, of: func(e *entry) any { return e.rank(path).Text }, expression: func(s *statement) { s.rankText(text) }},
	}
}

// rankFunction is the name of a function of SQLite that has the number of query.RankOf. SQLite has no regular expressions, and rounds numbers in its own way.
const rankFunction = "search_rank"

func init() {
	sqlitedriver.MustRegisterDeterministicScalarFunction(rankFunction, 1, func(_ *sqlitedriver.FunctionContext, args []driver.Value) (driver.Value, error) {
		text, _ := args[0].(string)
		return query.RankOf(text).Number, nil
	})
}

// rankNumber appends the number of the place of a text. A text that is no number is never converted.
func (s *statement) rankNumber(text func(*statement)) {
	if s.dialect == sqlite {
		text(s.add(rankFunction + "("))
		s.add(")")
		return
	}
	with := func(before, after string, values ...any) *statement {
		text(s.add(before))
		return s.add(after, values...)
	}
	with("(CASE WHEN CHAR_LENGTH(COALESCE(", fmt.Sprintf(", '')) = 0 THEN %g WHEN ", query.NoNumber)) // to MySQL, blanks are equal to nothing
	if s.dialect == postgres {
		with("", " ~ ? THEN ", query.NumberPattern)
		with("CAST(substring(", " from ?) AS double precision)", query.NumberPattern) // its first group
		unit := func() { with("substring(", " from '[A-Za-z]+$')") }
		s.byUnit(" * ", unit, func(u query.Unit) float64 { return u.Multiply })
		s.byUnit(" / ", unit, func(u query.Unit) float64 { return u.Divide })
	} else {
		// The end of a pattern is also before a line break at the end. A text in place of a number is the number that it begins with.
		with("", " COLLATE utf8mb4_bin REGEXP ? AND ", query.NumberPattern)
		with("", " NOT LIKE ? THEN (", "%\n")
		with("", " + 0e0)")
		unit := func() { with("REGEXP_SUBSTR(", " COLLATE utf8mb4_bin, '[A-Za-z]+$')") }
		s.byUnit(" * ", unit, func(u query.Unit) float64 { return u.Multiply })
		s.byUnit(" / ", unit, func(u query.Unit) float64 { return u.Divide })
	}
	s.add(fmt.Sprintf(" ELSE %g END)", query.AnyText))
}

// byUnit appends a factor that depends on the unit of a quantity.
func (s *statement) byUnit(operator string, unit func(), factor func(query.Unit) float64) {
	s.add(operator + "(CASE ")
	unit()
	for _, u := range query.Units {
		if factor(u) != 1 {
			s.add(" WHEN '" + u.Suffix + "' THEN " + s.double(factor(u)))
		}
	}
	s.add(" ELSE " + s.double(1) + " END)")
}

// double returns a number that is one of floating point to the database.
func (s *statement) double(number float64) string {
	text := fmt.Sprintf("%.0fe0", number)
	if s.dialect == postgres {
		return "CAST(" + strings.TrimSuffix(text, "e0") + " AS double precision)"
	}
	return text
}

// rankText appends the text of the place of a text.
func (s *statement) rankText(text func(*statement)) {
	switch s.dialect {
	case sqlite:
		text(s.add("substr(COALESCE("))
		s.add(fmt.Sprintf(", ''), 1, %d)", query.RankLength))
	case postgres:
		text(s.add("left(COALESCE("))
		s.add(fmt.Sprintf(`, ''), %d) COLLATE "C"`, query.RankLength))
	default:
		text(s.add("CAST(LEFT(COALESCE("))
		s.add(fmt.Sprintf(", ''), %d) AS BINARY)", query.RankLength))
	}
}
