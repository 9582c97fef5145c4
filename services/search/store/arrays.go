// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
)

// PostgreSQL takes an array as one value. So a statement about many rows has few values, and the same text for any number of rows, which the server parses
// and plans once for each connection.

// document is a value that PostgreSQL keeps as jsonb.
type document string

// anyOf appends the condition that a column is one of many IDs.
func anyOf(s *statement, ids []int64) *statement {
	if s.dialect == postgres {
		return s.add(" = ANY(CAST(? AS bigint[]))", ids)
	}
	return list(s.add(" IN "), ids)
}

// rowsOf appends rows for INSERT. There is one, at least, and all have values of the same types.
func rowsOf(s *statement, rows [][]any) {
	if s.dialect == postgres {
		columnsOf(s, rows)
		return
	}
	s.add("VALUES ")
	for i, values := range rows {
		s.text.WriteString(separator(i, "", ", "))
		list(s, values)
	}
}

// columnsOf appends rows as an array for each column.
func columnsOf(s *statement, rows [][]any) {
	var selected, names []string
	arrays := s.dialect.statement()
	arrays.args = s.args
	for column, value := range rows[0] {
		name := fmt.Sprint("c", column)
		names = append(names, name)
		arrays.text.WriteString(separator(column, "", ", "))
		switch value.(type) {
		case int64:
			arrays.add("CAST(? AS bigint[])", columnOf(rows, column, func(v any) int64 { return v.(int64) }))
		case bool:
			arrays.add("CAST(? AS boolean[])", columnOf(rows, column, func(v any) bool { return v.(bool) }))
		case []byte:
			arrays.add("CAST(? AS bytea[])", columnOf(rows, column, func(v any) []byte { return v.([]byte) }))
		case document:
			arrays.add("CAST(? AS text[])", columnOf(rows, column, func(v any) string { return string(v.(document)) }))
			name = "CAST(" + name + " AS jsonb)"
		default:
			arrays.add("CAST(? AS text[])", columnOf(rows, column, func(v any) string { return v.(string) }))
		}
		selected = append(selected, name)
	}
	s.text.WriteString("SELECT " + strings.Join(selected, ", ") + " FROM unnest(" + arrays.text.String() + ") r(" + strings.Join(names, ", ") + ")")
	s.args = arrays.args
}

func columnOf[T any](rows [][]any, column int, as func(any) T) []T {
	values := make([]T, len(rows))
	for i, row := range rows {
		values[i] = as(row[column])
	}
	return values
}
