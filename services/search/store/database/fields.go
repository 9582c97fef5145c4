// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
)

// Condition appends what a field of objects o must be. See query.Field for its meaning.
func (s *Statement) Condition(c query.Condition) {
	if c.Every() {
		s.dialect.elements(s, c)
		return
	}
	s.Add("(")
	if c.Exists {
		s.dialect.text(s, c.Path)
		s.Add(" IS NOT NULL)")
		return
	}
	s.compare(c, func() {
		s.Add("COALESCE(")
		s.dialect.text(s, c.Path)
		s.Add(", '')")
	})
	s.Add(")")
}

// Contained appends a condition that holds for all objects o with one of the values of c, and for few others, if an index helps with it.
// exact reports whether it holds for no others.
func (s *Statement) Contained(c query.Condition) (appended, exact bool) {
	if c.Exists || c.Text != "" || c.Bound != nil || slices.Contains(c.Values, "") {
		return false, false
	}
	return s.dialect.contained(s, c)
}

// compare appends that a text is as a condition says.
func (s *Statement) compare(c query.Condition, text func()) {
	if c.Bound != nil {
		s.bounded(*c.Bound, text)
		return
	}
	if c.IgnoreCase {
		text = s.dialect.lower(s, c.Values, text)
	} else {
		text = s.dialect.binary(s, text)
	}
	if c.Text == "" {
		text()
		OneOf(s, c.Values)
		return
	}
	at := " > 0"
	if c.Text == query.StartsWith {
		at = " = 1"
	}
	for i, value := range c.Values {
		s.Add(Separator(i, "(", " OR "))
		s.dialect.position(s, text, value)
		s.Add(at)
	}
	s.Add(")")
}

// bounded appends that a text is a number or a time that meets a bound. It is false or NULL for all other texts.
func (s *Statement) bounded(b query.Bound, text func()) {
	of := func(*Statement) { text() }
	if b.Moment != "" {
		s.dialect.moment(s, of)
		s.Add(" "+b.Sign()+" ?", b.Moment)
		return
	}
	other := query.NoNumber
	if b.Upwards() {
		other = query.AnyText
	}
	s.Add("NULLIF(")
	s.dialect.rankNumber(s, of)
	s.Add(fmt.Sprintf(", %g) %s ?", other, b.Sign()), b.Number)
}

// listReader is a dialect that reads lists as tables.
type listReader interface {
	// valueAt appends the value at a path of a JSON value, or NULL, and textIn its text.
	valueAt(s *Statement, in string, path []query.Step)
	textIn(s *Statement, in string, path []query.Step)
	// list appends a table of a name. Its column v has the elements of a value, and nothing if that is no list.
	list(s *Statement, name string, value func())
}

// elementsOf makes one table of each list.
func elementsOf(d listReader, s *Statement, c query.Condition) {
	s.Add("EXISTS (SELECT 1 FROM ")
	path, parent := c.Path, "o.object"
	for i := 0; ; i++ {
		next := indexOfEvery(path)
		if next < 0 {
			break
		}
		table := "e" + strconv.Itoa(i)
		d.list(s.Add(Separator(i, "", ", ")), table, func() { d.valueAt(s, parent, path[:next]) })
		parent, path = table+".v", path[next+1:]
	}
	if c.Exists {
		d.textIn(s.Add(" WHERE "), parent, path)
		s.Add(" IS NOT NULL)")
		return
	}
	s.Add(" WHERE (")
	d.valueAt(s, parent, path)
	s.Add(") IS NOT NULL AND ")
	s.compare(c, func() {
		s.Add("COALESCE(")
		d.textIn(s, parent, path)
		s.Add(", '')")
	})
	s.Add(")")
}

// indexOfEvery returns where a path goes through each element of a list, or -1.
func indexOfEvery(path []query.Step) int {
	return slices.IndexFunc(path, func(step query.Step) bool { return step.List() && step.Index < 0 })
}

// JSONPath returns a path as SQLite, MySQL and PostgreSQL's jsonpath write it. Names have no quotes.
func JSONPath(path []query.Step) string {
	var text strings.Builder
	text.WriteByte('$')
	for _, step := range path {
		switch {
		case !step.List():
			text.WriteString(`."` + objectjson.FieldName(step.Name) + `"`)
		case step.Index < 0:
			text.WriteString("[*]")
		default:
			text.WriteString("[" + strconv.Itoa(step.Index) + "]")
		}
	}
	return text.String()
}

// RankNumber appends the number of the place that the field of an object o has in an order, and RankText its text: those of query.Rank. The
// databases compute the number of a text in floating point from the same parts as query.RankOf, so all of them have the same.
func (s *Statement) RankNumber(path []query.Step) {
	s.dialect.rankNumber(s, func(s *Statement) { s.dialect.text(s, path) })
}

// RankText appends the text of that place.
func (s *Statement) RankText(path []query.Step) {
	s.dialect.rankText(s, func(s *Statement) { s.dialect.text(s, path) })
}

// ColumnText appends a column with texts, as RankText has them.
func (s *Statement) ColumnText(column string) {
	s.dialect.rankText(s, func(s *Statement) { s.Add(column) })
}

// byUnits appends the factors of the unit of a quantity. double returns a number that is one of floating point to the database.
func byUnits(s *Statement, unit func(), double func(float64) string) {
	byUnit(s, " * ", unit, double, func(u query.Unit) float64 { return u.Multiply })
	byUnit(s, " / ", unit, double, func(u query.Unit) float64 { return u.Divide })
}

func byUnit(s *Statement, operator string, unit func(), double func(float64) string, factor func(query.Unit) float64) {
	s.Add(operator + "(CASE ")
	unit()
	for _, u := range query.Units {
		if factor(u) != 1 {
			s.Add(" WHEN '" + u.Suffix + "' THEN " + double(factor(u)))
		}
	}
	s.Add(" ELSE " + double(1) + " END)")
}

// labelInTable appends a requirement for labels that are rows of a table. A positive requirement begins with the labels, and a negative one
// looks at each object that is left. numberOf returns the condition that a column has digits only, and these without leading zeros.
func labelInTable(s *Statement, r labels.Requirement, kinds []int64, numberOf func(column string) (digits, significant string)) {
	const value = "l.value"
	values := r.ValuesUnsorted()
	slices.Sort(values)
	has := func() *Statement {
		s.Add(" AND o.id IN (SELECT l.object_id FROM labels l WHERE l.label = ?", r.Key())
		return OneOf(s.Add(" AND l.kind_id"), kinds)
	}
	hasNot := func() *Statement {
		return s.Add(" AND NOT EXISTS (SELECT 1 FROM labels l WHERE l.object_id = o.id AND l.label = ?", r.Key())
	}
	//exhaustive:enforce
	switch r.Operator() {
	case selection.Exists:
		has()
	case selection.DoesNotExist:
		hasNot()
	case selection.Equals, selection.DoubleEquals, selection.In:
		OneOf(has().Add(" AND "+value), values)
	case selection.NotEquals, selection.NotIn:
		OneOf(hasNot().Add(" AND "+value), values)
	case selection.GreaterThan, selection.LessThan:
		digits, significant := numberOf(value)
		compareNumber(has().Add(" AND "), digits+" AND "+value+" <> ''", significant, r.Operator(), values[0])
	}
	s.Add(")")
}

// compareNumber appends a comparison of a label's value with a number. Only 64-bit integers can be compared, and no value of a label begins
// with a minus.
func compareNumber(s *Statement, digits, significant string, operator selection.Operator, than string) {
	number, _ := strconv.ParseInt(than, 10, 64) // a Requirement has nothing else
	// Numbers without leading zeros are in the order of their lengths, and then in that of text.
	is := func(sign string, n int64) {
		text := strings.TrimLeft(strconv.FormatInt(n, 10), "0")
		s.Add(fmt.Sprintf("(LENGTH(%[1]s) %[2]s ? OR LENGTH(%[1]s) = ? AND %[1]s %[2]s ?)", significant, sign), len(text), len(text), text)
	}
	s.Add("(" + digits + " AND NOT ")
	is(">", 1<<63-1)
	s.Add(" AND ")
	if operator == selection.GreaterThan {
		is(">", number)
	} else {
		is("<", number)
	}
	s.Add(")")
}
