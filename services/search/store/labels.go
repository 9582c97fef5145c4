// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// label appends a requirement of labels, with the meaning that it has for labels.Requirement.Matches.
func (b *search) label(s *statement, r labels.Requirement) {
	values := r.ValuesUnsorted()
	slices.Sort(values)
	if b.dialect == postgres {
		labelInPostgres(s, r.Key(), r.Operator(), values)
		return
	}
	// A positive requirement begins with the labels, and a negative one looks at each object that is left.
	has := func() *statement {
		s.add(" AND o.id IN (SELECT l.object_id FROM labels l WHERE l.label = ?", r.Key())
		s.add(" AND l.kind_id")
		oneOf(s, b.kinds)
		return s
	}
	hasNot := func() *statement {
		return s.add(" AND NOT EXISTS (SELECT 1 FROM labels l WHERE l.object_id = o.id AND l.label = ?", r.Key())
	}
	switch r.Operator() {
	case selection.Exists:
		has()
	case selection.DoesNotExist:
		hasNot()
	case selection.Equals, selection.DoubleEquals, selection.In:
		has().add(" AND l.value")
		oneOf(s, values)
	case selection.NotEquals, selection.NotIn:
		hasNot().add(" AND l.value")
		oneOf(s, values)
	case selection.GreaterThan, selection.LessThan:
		has().add(" AND ")
		b.compare(s, "l.value", r.Operator(), values[0])
	}
	s.text.WriteByte(')')
}

// labelInPostgres uses the GIN index of labels where it can.
func labelInPostgres(s *statement, key string, operator selection.Operator, values []string) {
	switch operator {
	case selection.Exists:
		s.add(" AND o.labels ?? ?", key)
	case selection.DoesNotExist:
		s.add(" AND NOT (o.labels ?? ?)", key)
	case selection.Equals, selection.DoubleEquals, selection.In:
		for i, value := range values {
			pair, _ := json.Marshal(map[string]string{key: value}) // strings can be marshalled
			s.add(separator(i, " AND (", " OR ")+"o.labels @> CAST(? AS jsonb)", string(pair))
		}
		s.text.WriteByte(')')
	case selection.NotEquals, selection.NotIn:
		list(s.add(" AND (o.labels ->> ? IN ", key), values).add(") IS NOT TRUE")
	case selection.GreaterThan, selection.LessThan:
		s.add(" AND EXISTS (SELECT 1 FROM (SELECT o.labels ->> ? AS value) l WHERE ", key)
		postgres.compare(s, "l.value", operator, values[0])
		s.text.WriteByte(')')
	}
}

// compare appends a comparison of a label's value with a number. Only 64-bit integers can be compared, and no value of a
// label begins with a minus.
func (d dialect) compare(s *statement, column string, operator selection.Operator, than string) {
	number, _ := strconv.ParseInt(than, 10, 64) // a Requirement has nothing else
	digits, significant := column+" REGEXP '^[0-9]+$'", "TRIM(LEADING '0' FROM "+column+")"
	switch d {
	case sqlite:
		digits, significant = column+" NOT GLOB '*[^0-9]*' AND "+column+" <> ''", "LTRIM("+column+", '0')"
	case postgres:
		digits = column + " ~ '^[0-9]+$'"
	}
	// Numbers without leading zeros are in the order of their lengths, and then in that of text.
	is := func(sign string, n int64) {
		text := strings.TrimLeft(strconv.FormatInt(n, 10), "0")
		s.add("(LENGTH("+significant+") "+sign+" ? OR LENGTH("+significant+") = ? AND "+significant+" "+sign+" ?)", len(text), len(text), text)
	}
	s.add("(" + digits + " AND NOT ")
	is(">", 1<<63-1)
	s.add(" AND ")
	if operator == selection.GreaterThan {
		is(">", number)
	} else {
		is("<", number)
	}
	s.text.WriteByte(')')
}
