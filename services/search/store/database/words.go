// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"strings"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// HasWord appends that one of some columns has a word of query.Query.Words.
func (s *Statement) HasWord(word string, columns ...string) {
	for i, column := range columns {
		s.Add(Separator(i, "(", " OR "))
		s.compare(query.Word(nil, word), func() { s.Add(column) })
	}
	s.Add(")")
}

// MayHaveWord appends that an object o itself may have a word of query.Query.Words: in its name, namespace, labels or images. It appends
// nothing where the database has no column for that.
func (s *Statement) MayHaveWord(word string) (appended bool) { return s.dialect.mayHaveWord(s, word) }

// TextMayHave appends that the text of objects o may have another one: it has that, or escapes behind which that may be. ignoreCase has A
// to Z be a to z, and the other text has no upper case. It appends nothing where this takes the database longer than to read fields.
func (s *Statement) TextMayHave(text string, ignoreCase bool) (appended bool) {
	isLiteral := func(r rune) bool { return r > ' ' && r < 0x7f && r != '"' && r != '\\' }
	if strings.ContainsFunc(text, func(r rune) bool { return !isLiteral(r) }) {
		return false
	}
	return s.dialect.textMayHave(s, []string{text, `\u`, `\/`}, ignoreCase)
}

// wordInLabels appends that a label of objects o, which are rows of a table, has a word.
func wordInLabels(s *Statement, word string) {
	s.Add("EXISTS (SELECT 1 FROM labels l WHERE l.object_id = o.id AND ")
	s.HasWord(word, "l.label", "l.value")
	s.Add(")")
}
