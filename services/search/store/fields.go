// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/selection"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// field appends a requirement of a field. See query.Field for its meaning. An object or a list as a value equals nothing.
func (b *search) field(s *statement, f query.Field) {
	negative := f.Operator == selection.NotEquals || f.Operator == selection.NotIn || f.Operator == selection.DoesNotExist
	exists := f.Operator == selection.Exists || f.Operator == selection.DoesNotExist
	s.add(" AND ")
	if negative {
		s.add("NOT ")
	}
	if b.dialect == postgres && !negative && !exists && !slices.Contains(f.Values, "") {
		if contained(s, f) {
			return
		}
		s.add(" AND ")
	}
	if f.Every() {
		b.elements(s, f, exists)
		return
	}
	if exists {
		s.add("(")
		b.text(s, f.Path)
		s.add(" IS NOT NULL)")
		return
	}
	s.add("(")
	b.binary(s, func() {
		s.add("COALESCE(")
		b.text(s, f.Path)
		s.add(", '')")
	})
	oneOf(s, f.Values)
	s.text.WriteByte(')')
}

// contained appends a condition that holds for all objects with one of the values, and for few others. PostgreSQL has an index for it. It reports whether
// the condition holds for no others.
func contained(s *statement, f query.Field) (exact bool) {
	exact = !slices.ContainsFunc(f.Path, func(step query.Step) bool { return step.List() && step.Index >= 0 })
	n := 0
	either := func(value any) {
		for _, step := range slices.Backward(f.Path) {
			if step.List() {
				value = []any{value}
			} else {
				value = map[string]any{indexedName(step.Name): value}
			}
		}
		text, _ := json.Marshal(value) // it was made of texts and valid JSON
		s.add(separator(n, "(", " OR ")+"o.object @> CAST(? AS jsonb)", string(text))
		n++
	}
	for _, value := range f.Values {
		either(query.Speakable(value))
		if isScalar(value) {
			exact = false // an older version of search has written other numbers than integers, of which several texts are equal
			either(json.RawMessage(value))
		}
	}
	s.text.WriteByte(')')
	return exact
}

// indexOfEvery returns where a path goes through each element of a list, or -1.
func indexOfEvery(path []query.Step) int {
	return slices.IndexFunc(path, func(step query.Step) bool { return step.List() && step.Index < 0 })
}

// binary makes a comparison with a text one of bytes. MySQL and MariaDB would not see blanks at the end.
func (b *search) binary(s *statement, text func()) {
	if b.dialect == mysqlFamily {
		s.add("CAST(")
		defer s.add(" AS BINARY)")
	}
	text()
}

// text appends the text of a scalar field: NULL if it is not there or null, and a control character if it is no scalar.
func (b *search) text(s *statement, path []query.Step) {
	switch b.dialect {
	case sqlite:
		sqliteText(s, func() { s.bind(jsonPath(path)) })
	case postgres:
		postgresText(s, "o.object", path)
	default:
		mysqlText(s, "o.object", path)
	}
}

// elements appends whether one of the elements of lists is as a requirement says, or exists.
func (b *search) elements(s *statement, f query.Field, exists bool) {
	switch b.dialect {
	case sqlite:
		elementsInSQLite(s, f, exists)
	case postgres:
		elementsInPostgres(s, f, exists)
	default:
		b.elementsInMySQL(s, f, exists)
	}
}

// isScalar reports whether a text is also that of a number or a truth value in the form of the database.
func isScalar(text string) bool { return text == "true" || text == "false" || isInteger(text) }

// jsonPath returns a path as SQLite, MySQL and PostgreSQL's jsonpath write it. Names have no quotes.
func jsonPath(path []query.Step) string {
	var text strings.Builder
	text.WriteByte('$')
	for _, step := range path {
		switch {
		case !step.List():
			text.WriteString(`."` + indexedName(step.Name) + `"`)
		case step.Index < 0:
			text.WriteString("[*]")
		default:
			text.WriteString("[" + strconv.Itoa(step.Index) + "]")
		}
	}
	return text.String()
}
