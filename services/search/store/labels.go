// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
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
		b.labelInPostgres(s, r.Key(), r.Operator(), values)
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

// labelInPostgres uses the index of the terms of labels where it can: "KIND LABEL" and "KIND LABEL=VALUE".
func (b *search) labelInPostgres(s *statement, key string, operator selection.Operator, values []string) {
	switch operator {
	case selection.Exists:
		b.hasTerm(s, []string{key})
	case selection.DoesNotExist:
		s.add(" AND NOT (o.labels ?? ?)", key)
	case selection.Equals, selection.DoubleEquals, selection.In:
		if b.tooManyTerms(len(values)) {
			list(s.add(" AND o.labels ->> ? IN ", key), values)
			return
		}
		pairs := make([]string, len(values))
		for i, value := range values {
			pairs[i] = key + "=" + value
		}
		b.hasTerm(s, pairs)
	case selection.NotEquals, selection.NotIn:
		list(s.add(" AND (o.labels ->> ? IN ", key), values).add(") IS NOT TRUE")
	case selection.GreaterThan, selection.LessThan:
		s.add(" AND EXISTS (SELECT 1 FROM (SELECT o.labels ->> ? AS value) l WHERE ", key)
		postgres.compare(s, "l.value", operator, values[0])
		s.text.WriteByte(')')
	}
}

// hasTerm appends that an object is of one of the kinds and has one of the labels. The index knows exactly that, so that no object is compared.
func (b *search) hasTerm(s *statement, labels []string) {
	var terms []string
	for _, kind := range b.kinds {
		for _, label := range labels {
			terms = append(terms, fmt.Sprint(kind, " ", label))
		}
	}
	s.add(" AND label_terms(o.kind_id, o.labels) && CAST(? AS text[])", terms)
}

// maxTerms bounds the terms of a requirement in a statement. They have a megabyte or two.
const maxTerms = 20_000

// tooManyTerms reports whether a label has so many values for the kinds of the search that PostgreSQL compares the labels of the objects instead.
func (b *search) tooManyTerms(values int) bool { return len(b.kinds)*values > maxTerms }

// foundByTerms reports whether PostgreSQL finds the objects with a label by the index of terms. They are of the kinds of the search then.
func (b *search) foundByTerms(r labels.Requirement) bool {
	switch r.Operator() {
	case selection.Exists:
		return true
	case selection.Equals, selection.DoubleEquals, selection.In:
		return !b.tooManyTerms(len(r.ValuesUnsorted()))
	}
	return false
}

func (b *search) notFoundByTerms(r labels.Requirement) bool { return !b.foundByTerms(r) }

// few is how many objects PostgreSQL sorts faster than it goes through all of a kind in their order.
const few = 20_000

// chooseIndex decides how PostgreSQL finds a page of objects with certain labels. Its planner knows neither how many there are nor that their terms are
// of one kind, and combines indexes of millions of objects to learn that.
func (t *transaction) chooseIndex(ctx context.Context, b *search) error {
	if t.dialect != postgres || !slices.ContainsFunc(b.q.Labels, b.foundByTerms) {
		return nil
	}
	find := t.sql("SELECT COUNT(*) FROM (SELECT 1 FROM objects o WHERE 1 = 1")
	for _, r := range b.q.Labels {
		if b.foundByTerms(r) {
			b.label(find, r)
		}
	}
	n, err := value[int64](ctx, t, find.add(" LIMIT ?) found", few+1))
	if b.byLabels = n <= few; b.byLabels && b.isWholeButForLabels() && b.clusters == nil && !slices.ContainsFunc(b.q.Labels, b.notFoundByTerms) {
		b.known = &n
	}
	return err
}

// compare appends a comparison of a label's value with a number. Only 64-bit integers can be compared, and no value of a
// label begins with a minus.
func (d dialect) compare(s *statement, column string, operator selection.Operator, than string) {
	number, _ := strconv.ParseInt(than, 10, 64) // a Requirement has nothing else
	digits, significant := column+" NOT REGEXP '[^0-9]' AND "+column+" <> ''", "TRIM(LEADING '0' FROM "+column+")"
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
