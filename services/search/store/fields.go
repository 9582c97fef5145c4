// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// field appends a requirement of a field. See query.Field for its meaning. An object or a list as a value equals nothing.
func (b *search) field(s *statement, f query.Field) {
	s.add(" AND ")
	ids, others := b.computed(f), b.kinds
	n := 0
	for kind, of := range ids {
		if len(of) == len(b.kinds) {
			b.meaning(s, f, kind)
			return
		}
		others = slices.DeleteFunc(slices.Clone(others), func(id int64) bool { return slices.Contains(of, id) })
	}
	if len(ids) == 0 {
		b.meaning(s, f, schema.GroupKind{})
		return
	}
	ids[schema.GroupKind{}] = others
	for _, kind := range slices.SortedFunc(maps.Keys(ids), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) }) {
		if of := ids[kind]; len(of) > 0 {
			oneOf(s.add(separator(n, "(", " OR ")+"o.kind_id"), of)
			b.meaning(s.add(" AND "), f, kind)
			n++
		}
	}
	s.text.WriteByte(')')
}

// computed returns the IDs of the kinds of which a field means something else than of others.
func (b *search) computed(f query.Field) map[schema.GroupKind][]int64 {
	ids := map[schema.GroupKind][]int64{}
	for _, kind := range f.ComputedKinds() {
		for _, id := range b.kinds {
			resource, _ := meta.UnsafeGuessKindToResource(kind.WithVersion("")) // a kind of Kubernetes itself
			if b.resourceOf[id] == resource.GroupResource() {
				ids[kind] = append(ids[kind], id)
			}
		}
	}
	return ids
}

// meaning appends what a field means for objects of a kind.
func (b *search) meaning(s *statement, f query.Field, kind schema.GroupKind) {
	if f.Negative() {
		s.add("NOT ")
	}
	alternatives := f.Alternatives(kind)
	if len(alternatives) == 0 {
		s.add("(1 = 0)")
		return
	}
	for i, all := range alternatives {
		s.add(separator(i, "((", " OR ("))
		if len(all) == 0 {
			s.add("1 = 1")
		}
		for j, c := range all {
			s.add(separator(j, "", " AND "))
			if b.dialect == postgres && !f.Negative() && !c.Exists && c.Text == "" && !slices.Contains(c.Values, "") {
				if contained(s, c) {
					continue
				}
				s.add(" AND ")
			}
			b.condition(s, c)
		}
		s.text.WriteByte(')')
	}
	s.text.WriteByte(')')
}

// condition appends what a field must be.
func (b *search) condition(s *statement, c query.Condition) {
	if c.Every() {
		b.elements(s, c)
		return
	}
	s.add("(")
	if c.Exists {
		b.text(s, c.Path)
		s.add(" IS NOT NULL)")
		return
	}
	s.compare(c, func() {
		s.add("COALESCE(")
		b.text(s, c.Path)
		s.add(", '')")
	})
	s.text.WriteByte(')')
}

// compare appends that a text is as a condition says. MySQL and MariaDB compare bytes: they would not see blanks at the end of texts.
func (s *statement) compare(c query.Condition, text func()) {
	if c.IgnoreCase {
		text = s.lower(c.Values, text)
	} else {
		text = s.binary(text)
	}
	if c.Text == "" {
		text()
		oneOf(s, c.Values)
		return
	}
	at := " > 0"
	if c.Text == query.StartsWith {
		at = " = 1"
	}
	for i, value := range c.Values {
		switch s.add(separator(i, "(", " OR ")); s.dialect {
		case sqlite:
			s.with("instr(", text).add(", ?)"+at, value)
		case postgres:
			s.with("strpos(", text).add(", ?)"+at, value)
		default:
			s.add("LOCATE(CAST(? AS BINARY), ", value).with("", text).add(")" + at)
		}
	}
	s.text.WriteByte(')')
}

// lower has a to z stand for A to Z in a text, as far as some texts in lower case have these letters. In MySQL, LOWER would change other letters, too.
func (s *statement) lower(values []string, text func()) func() {
	switch s.dialect {
	case sqlite:
		return func() { s.with("lower(", text).add(")") }
	case postgres:
		return func() { s.with("lower(", text).add(` COLLATE "C")`) }
	}
	text = s.binary(text)
	for letter := 'a'; letter <= 'z'; letter++ {
		if strings.ContainsRune(strings.Join(values, ""), letter) {
			within := text
			text = func() { s.with("REPLACE(", within).add(fmt.Sprintf(", '%c', '%c')", letter-'a'+'A', letter)) }
		}
	}
	return text
}

// contained appends a condition that holds for all objects with one of the values, and for few others. PostgreSQL has an index for it. It reports whether
// the condition holds for no others.
func contained(s *statement, c query.Condition) (exact bool) {
	exact = !slices.ContainsFunc(c.Path, func(step query.Step) bool { return step.List() && step.Index >= 0 })
	n := 0
	either := func(value any) {
		for _, step := range slices.Backward(c.Path) {
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
	for _, value := range c.Values {
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

// binary makes a text one of bytes, where that makes a difference.
func (s *statement) binary(text func()) func() {
	if s.dialect != mysqlFamily {
		return text
	}
	return func() { s.with("CAST(", text).add(" AS BINARY)") }
}

// with appends something after a text.
func (s *statement) with(before string, appended func()) *statement {
	s.add(before)
	appended()
	return s
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
func (b *search) elements(s *statement, c query.Condition) {
	switch b.dialect {
	case sqlite:
		elementsInSQLite(s, c)
	case postgres:
		elementsInPostgres(s, c)
	default:
		elementsInMySQL(s, c)
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
