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
	s.add("(COALESCE(")
	b.text(s, f.Path)
	s.add(", '')")
	b.binary(s)
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
				value = map[string]any{step.Name: value}
			}
		}
		text, _ := json.Marshal(value) // it was made of texts and valid JSON
		s.add(separator(n, "(", " OR ")+"o.object @> CAST(? AS jsonb)", string(text))
		n++
	}
	for _, value := range f.Values {
		either(value)
		// A number or a truth value has the same text. PostgreSQL writes numbers without exponents.
		if isScalar(value) {
			exact = false // numbers of several texts are equal
			if !strings.ContainsAny(value, "eE") || value == "true" || value == "false" {
				either(json.RawMessage(value))
			}
		}
	}
	s.text.WriteByte(')')
	return exact
}

func everyElement(step query.Step) bool { return step.List() && step.Index < 0 }

// binary makes a comparison one of bytes.
func (b *search) binary(s *statement) {
	if b.dialect == mysqlFamily {
		s.add(" COLLATE utf8mb4_bin")
	}
}

// text appends the text of a scalar field: NULL if it is not there or null, and a control character if it is no scalar.
func (b *search) text(s *statement, path []query.Step) {
	switch b.dialect {
	case sqlite:
		sqliteText(s, func() { s.bind(jsonPath(path)) })
	case postgres:
		postgresText(s, "o.object", path)
	default:
		at := jsonPath(path)
		s.add("(CASE JSON_TYPE(JSON_EXTRACT(o.object, ?)) WHEN 'OBJECT' THEN CHAR(1) WHEN 'ARRAY' THEN CHAR(1) WHEN 'NULL' THEN NULL"+
			" ELSE CONVERT(JSON_UNQUOTE(JSON_EXTRACT(o.object, ?)) USING utf8mb4) END)", at, at)
	}
}

// postgresText appends the text of a scalar field of a JSON value.
func postgresText(s *statement, in string, path []query.Step) {
	at := postgresPath(path)
	s.add("(CASE WHEN jsonb_typeof("+in+" #> ?) IN ('object', 'array') THEN chr(1) ELSE "+in+" #>> ? END)", at, at)
}

func postgresPath(path []query.Step) []string {
	keys := make([]string, 0, len(path))
	for _, step := range path {
		if step.List() {
			step.Name = strconv.Itoa(step.Index)
		}
		keys = append(keys, step.Name)
	}
	return keys
}

// sqliteText appends the text of a scalar field, whose path is appended by at.
func sqliteText(s *statement, at func()) {
	s.add("(CASE json_type(o.object, ")
	at()
	s.add(") WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' WHEN 'object' THEN char(1) WHEN 'array' THEN char(1) ELSE CAST(json_extract(o.object, ")
	at()
	s.add(") AS TEXT) END)")
}

// elements appends whether one of the elements of lists is as a requirement says, or exists.
func (b *search) elements(s *statement, f query.Field, exists bool) {
	switch b.dialect {
	case sqlite:
		elementsInSQLite(s, f, exists)
	case postgres:
		elementsInPostgres(s, f, exists)
	default:
		elementsInMySQL(s, f, exists)
	}
}

// elementsInPostgres makes one table of each list. An element is in the column v.
func elementsInPostgres(s *statement, f query.Field, exists bool) {
	s.add("EXISTS (SELECT 1 FROM ")
	path, parent := f.Path, "o.object"
	for i := 0; ; i++ {
		next := slices.IndexFunc(path, everyElement)
		if next < 0 {
			break
		}
		table, at := "e"+strconv.Itoa(i), postgresPath(path[:next])
		s.add(separator(i, "", ", ")+"jsonb_array_elements(CASE jsonb_typeof("+parent+" #> ?) WHEN 'array' THEN "+parent+" #> ? ELSE '[]' END) "+table+"(v)", at, at)
		parent, path = table+".v", path[next+1:]
	}
	if exists {
		postgresText(s.add(" WHERE "), parent, path)
		s.add(" IS NOT NULL)")
		return
	}
	s.add(" WHERE "+parent+" #> ? IS NOT NULL AND COALESCE(", postgresPath(path))
	postgresText(s, parent, path)
	s.add(", '')")
	oneOf(s, f.Values)
	s.text.WriteByte(')')
}

// elementsInSQLite makes one table of each list. The path of an element is in the column fullkey. (SQLite 3.51 makes joins of EXISTS, and then OFFSET
// counts an object once for each of its elements. A subquery with a limit stays as it is.)
func elementsInSQLite(s *statement, f query.Field, exists bool) {
	s.add("((SELECT 1 FROM ")
	var conditions []string
	path, parent := f.Path, ""
	for i := 0; ; i++ {
		next := slices.IndexFunc(path, everyElement)
		if next < 0 {
			break
		}
		table := "e" + strconv.Itoa(i)
		s.add(separator(i, "", ", ") + "json_each(o.object, ")
		s.below(parent, path[:next])
		s.add(") " + table)
		conditions = append(conditions, "typeof("+table+".key) = 'integer'")
		parent, path = table, path[next+1:]
	}
	s.add(" WHERE " + strings.Join(conditions, " AND ") + " AND ")
	text := func() { sqliteText(s, func() { s.below(parent, path) }) }
	if exists {
		text()
		s.add(" IS NOT NULL LIMIT 1) IS NOT NULL)")
		return
	}
	s.add("CASE json_type(o.object, ")
	s.below(parent, path)
	s.add(") WHEN 'null' THEN '' ELSE ")
	text()
	s.add(" END")
	oneOf(s, f.Values)
	s.add(" LIMIT 1) IS NOT NULL)")
}

// below appends a path of SQLite below an element of a table, or below the object.
func (s *statement) below(table string, path []query.Step) {
	if table == "" {
		s.bind(jsonPath(path))
		return
	}
	s.add(table+".fullkey || ?", strings.TrimPrefix(jsonPath(path), "$"))
}

// elementsInMySQL looks for values in the list of all that the path finds.
func elementsInMySQL(s *statement, f query.Field, exists bool) {
	at := jsonPath(f.Path)
	if exists {
		s.add("(JSON_EXTRACT(o.object, ?) IS NOT NULL)", at)
		return
	}
	s.add("(")
	for i, value := range f.Values {
		s.text.WriteString(separator(i, "", " OR "))
		quoted, _ := json.Marshal(value) // strings can be marshalled
		s.add("COALESCE(JSON_CONTAINS(JSON_EXTRACT(o.object, ?), ?), 0)", at, string(quoted))
		if isScalar(value) {
			s.add(" OR COALESCE(JSON_CONTAINS(JSON_EXTRACT(o.object, ?), ?), 0)", at, value)
		}
		if value == "" {
			s.add(" OR COALESCE(JSON_CONTAINS(JSON_EXTRACT(o.object, ?), 'null'), 0)", at)
		}
	}
	s.text.WriteByte(')')
}

// isScalar reports whether a text is also a number or a truth value of JSON.
func isScalar(text string) bool {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return false
	}
	switch value.(type) {
	case float64, bool:
		return true
	}
	return false
}

// jsonPath returns a path as SQLite, MySQL and PostgreSQL's jsonpath write it. Names have no quotes.
func jsonPath(path []query.Step) string {
	var text strings.Builder
	text.WriteByte('$')
	for _, step := range path {
		switch {
		case !step.List():
			text.WriteString(`."` + step.Name + `"`)
		case step.Index < 0:
			text.WriteString("[*]")
		default:
			text.WriteString("[" + strconv.Itoa(step.Index) + "]")
		}
	}
	return text.String()
}
