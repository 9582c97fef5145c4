// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"strings"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// Statement is the text of an SQL statement with its bound values.
type Statement struct {
	dialect Dialect
	text    strings.Builder
	args    []any
}

// SQL returns a statement of constant text, in which each ? stands for the next value. Two of them, ??, stand for the operator ? of
// PostgreSQL.
func SQL(d Dialect, text string, values ...any) *Statement {
	return (&Statement{dialect: d}).Add(text, values...)
}

// Values returns the bound values, and Text the text for the driver.
func (s *Statement) Values() []any { return s.args }

// Text returns the text for the driver.
func (s *Statement) Text() string { return s.text.String() }

// Add appends text in the same way as SQL.
func (s *Statement) Add(text string, values ...any) *Statement {
	for {
		before, after, found := strings.Cut(text, "?")
		s.text.WriteString(before)
		if !found {
			return s
		}
		if strings.HasPrefix(after, "?") {
			s.text.WriteByte('?')
			text = after[1:]
			continue
		}
		s.bind(values[0])
		values, text = values[1:], after
	}
}

// Within returns a statement that has this one between two texts without values.
func (s *Statement) Within(before, after string) *Statement {
	whole := &Statement{dialect: s.dialect, args: s.args}
	whole.text.WriteString(before + s.text.String() + after)
	return whole
}

// Computed is a text that statements compute themselves, query.Container included.
type Computed string

// bind appends the placeholder of a value. No text makes a statement fail.
func (s *Statement) bind(value any) {
	switch v := value.(type) {
	case Computed:
		value = string(v)
	case string:
		value = query.Speakable(v)
	case []string:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = query.Speakable(v[i])
		}
		value = texts
	}
	s.args = append(s.args, value)
	s.dialect.placeholder(&s.text, len(s.args))
}

// with appends something after a text.
func (s *Statement) with(before string, appended func()) *Statement {
	s.Add(before)
	appended()
	return s
}

// List appends "(?, ?, ...)" with at least one value.
func List[T any](s *Statement, values []T) *Statement {
	for i, value := range values {
		s.text.WriteString(Separator(i, "(", ", "))
		s.bind(value)
	}
	return s.Add(")")
}

// OneOf appends "= ?" or "IN (...)". Databases use an index for the order of a list with the first only.
func OneOf[T any](s *Statement, values []T) *Statement {
	if len(values) == 1 {
		return s.Add(" = ?", values[0])
	}
	return List(s.Add(" IN "), values)
}

// AnyOf appends the condition that a column is one of many IDs.
func AnyOf(s *Statement, ids []int64) *Statement { return s.dialect.anyOf(s, ids) }

// Pairs appends a list of rows of two values, for "(a, b) IN".
func Pairs[T any](s *Statement, values [][2]T) *Statement {
	for i, pair := range values {
		s.text.WriteString(Separator(i, s.dialect.beforePairs(), ", ") + "(")
		s.bind(pair[0])
		s.text.WriteString(", ")
		s.bind(pair[1])
		s.text.WriteByte(')')
	}
	return s.Add(")")
}

// Separator returns what is before an element of a list: one text before the first, and another one before the others.
func Separator(i int, first, others string) string {
	if i == 0 {
		return first
	}
	return others
}

// Choose appends the conditions of a choice. column is a constant.
func Choose(s *Statement, column string, c query.Choice) {
	if len(c.In) > 0 {
		OneOf(s.Add(" AND "+column), c.In)
	}
	if len(c.NotIn) > 0 {
		List(s.Add(" AND "+column+" NOT IN "), c.NotIn)
	}
	if c.Exists {
		s.Add(" AND " + column + " <> ''")
	}
	if c.Missing {
		s.Add(" AND " + column + " = ''")
	}
}
