// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzParameters has clients send parameters. What is accepted must be fit for the paths and the columns of SQL.
func FuzzParameters(f *testing.F) {
	for _, query := range []string{
		"groupBy=cluster,a['b,c'].d,.e", "words=a+B%00+c", "labelSelector=search.clusterpedia.io%2Fwords+in+(a,b)", "", "limit=5&continue=3", "continue=eyJyZXZpc2lvbiI6NSwiYWZ0ZXIiOjN9&at=10m&differsFrom=now", "orderby=name+desc,cluster", "orderby=spec.a['b,c']+desc,.d[3].e", "fieldSelector=spec.containers[].image%3Dnginx", `fieldSelector=a['b/c']."d"[3]+in+("x",+y)`,
		"labelSelector=search.clusterpedia.io%2Forderby+in+(name_desc,cluster),a%3Db", "fieldSelector=a.b>%3D500m,c[]<now-7d,d>2026-11-25T04:00:00.5%2B01:00", "ownerName=web&ownerSeniority=2&since=2026-01-01",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := Parse(values)
		if err != nil {
			return
		}
		for _, order := range q.Order {
			if len(order.Path) == 0 && !slices.Contains(columns, order.Column) {
				t.Errorf("column %q", order.Column)
			}
			checkPath(t, order.Path)
		}
		for _, group := range q.GroupBy {
			if len(group.Path) == 0 && !slices.Contains(groupColumns, group.Column) {
				t.Errorf("column %q", group.Column)
			}
			checkPath(t, group.Path)
		}
		for _, field := range q.Fields {
			checkBound(t, field)
			for _, path := range field.Paths {
				if len(path) == 0 || path[0].List() {
					t.Errorf("path %v", path)
				}
				checkPath(t, path)
			}
		}
		if len(q.Words) > maxWords || slices.ContainsFunc(q.Words, func(word string) bool {
			return word == "" || strings.ContainsAny(word, " \x00") || word != Lowered(word)
		}) {
			t.Errorf("words %q", q.Words)
		}
		if q.Limit < 0 || q.Offset < 0 || q.Owner != nil && (q.Owner.Seniority < 0 || q.Owner.Seniority > maxSeniority) {
			t.Errorf("numbers of %+v", q)
		}
	})
}

// checkBound holds that all operators that compare have a bound which every database can take.
func checkBound(t *testing.T, field Field) {
	t.Helper()
	compares := slices.ContainsFunc(comparisons, func(c comparison) bool { return c.operator == field.Operator })
	if b := field.Bound; compares != (b != nil) || compares && (b.Sign() == "" || field.Negative()) {
		t.Errorf("%s has the bound %+v", field.Operator, b)
	} else if compares && (math.IsNaN(b.Number) || b.Number <= NoNumber || b.Number >= AnyText || strings.Trim(b.Moment, "0123456789-:.T") != "") {
		t.Errorf("bound %+v", *b)
	}
}

func checkPath(t *testing.T, path []Step) {
	t.Helper()
	for _, step := range path {
		if strings.ContainsAny(step.Name, "\"\\\x00") || step.List() && step.Index < -1 {
			t.Errorf("step %+v", step)
		}
	}
}
