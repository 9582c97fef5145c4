// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strconv"
	"strings"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// statement is the text of an SQL statement with its bound values.
type statement struct {
	dialect dialect
	text    strings.Builder
	args    []any
}

func (d dialect) statement() *statement { return &statement{dialect: d} }

// sql returns a statement of constant text, in which each ? stands for the next value. Two of them, ??, stand for the operator ? of PostgreSQL.
func (d dialect) sql(text string, values ...any) *statement {
	return d.statement().add(text, values...)
}

// add appends text in the same way.
func (s *statement) add(text string, values ...any) *statement {
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

// asComputed is a text that statements compute themselves, query.Container included.
type asComputed string

// bind appends the placeholder of a value. No text makes a statement fail.
func (s *statement) bind(value any) {
	switch v := value.(type) {
	case asComputed:
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
	if s.dialect == postgres {
		s.text.WriteByte('$')
		s.text.WriteString(strconv.Itoa(len(s.args)))
		return
	}
	s.text.WriteByte('?')
}

// list appends "(?, ?, ...)" with at least one value.
func list[T any](s *statement, values []T) *statement {
	for i, value := range values {
		s.text.WriteString(separator(i, "(", ", "))
		s.bind(value)
	}
	s.text.WriteByte(')')
	return s
}

// pairs appends a list of rows of two values, for "(a, b) IN".
func pairs[T any](s *statement, values [][2]T) *statement {
	open, row := "(", "("
	if s.dialect == sqlite {
		open = "(VALUES "
	}
	for i, pair := range values {
		s.text.WriteString(separator(i, open, ", ") + row)
		s.bind(pair[0])
		s.text.WriteString(", ")
		s.bind(pair[1])
		s.text.WriteByte(')')
	}
	s.text.WriteByte(')')
	return s
}

func separator(i int, first, others string) string {
	if i == 0 {
		return first
	}
	return others
}
