// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/console/query"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// noNamespaces is a label selector of objects without a namespace.
const noNamespaces = "!" + parameters + "namespaces"

// container is what search has in place of the text of an object or a list.
const container = "(object or list)"

// countsPage is the model of numbers of objects.
type countsPage struct {
	layout
	Chips   []chip
	CountBy []countLink
	// Objects leads to the objects that are counted.
	Objects string
	Columns []string
	Rows    []countedRow
	Found   string
	Notes   []string
	Ages    []clusterAge
	Kubectl string
	Raw     string
	URL     string
}

// countLink leads to numbers of objects by something else.
type countLink struct{ By, Link string }

// countedRow is a group of objects.
type countedRow struct {
	// Link leads to the objects of the group, if the box can say which these are.
	Link, Label string
	Cells       []string
	Count       int64
	Share       string
}

// countLinks lead to the numbers of the objects of a query.
func countLinks(q query.Query) (links []countLink) {
	for _, by := range []string{"cluster", "namespace", query.ByKind} {
		links = append(links, countLink{by, linkTo(q.Objects().With("count", by), "")})
	}
	return links
}

// counts shows how many objects a query finds, by columns and fields.
func (c *console) counts(ctx context.Context, q query.Query) (model, error) {
	r := &results{values: q.Parameters()}
	if err := c.aim(q, r); err != nil {
		return nil, err
	}
	r.values.Del("orderby") // it is for the objects
	r.values.Set("groupBy", q.GroupBy())
	r.values.Set("withStaleness", "true")
	answer, err := c.hub.Get(ctx, r.path, r.values, "application/json")
	if err != nil {
		return nil, err
	}
	var found v1beta1.ObjectCounts
	if err := json.Unmarshal(answer.Body, &found); err != nil {
		return nil, fmt.Errorf("search answers with something else than numbers: %w", err)
	}
	page := &countsPage{
		layout: layout{Title: q.String() + " - Counts", Text: q.String()},
		Chips:  chipsOf(q), CountBy: countLinks(q), Objects: linkTo(q.Objects(), ""),
		Columns: q.Values("count"), Notes: answer.Warnings, Ages: agesOf(answer.Staleness),
		Kubectl: commands(q, r), Raw: rawCommand(r.path, r.values), URL: c.hub.URL(r.path, r.values),
	}
	page.Found = counted(int(found.Total), nil, false)
	if found.OtherGroups > 0 {
		page.Notes = append(page.Notes, fmt.Sprintf("%d more groups have %d objects.", found.OtherGroups, found.OtherCount))
	}
	for _, group := range found.Groups {
		row, err := countedGroup(q, group)
		if err != nil {
			return nil, err
		}
		row.Share = fmt.Sprintf("%.1f %%", 100*float64(group.Count)/float64(max(found.Total, 1)))
		page.Rows = append(page.Rows, row)
	}
	return page, nil
}

// countedGroup returns the row of a group, with a link to its objects.
func countedGroup(q query.Query, group v1beta1.CountedGroup) (countedRow, error) {
	row := countedRow{Count: group.Count}
	narrow, narrows := q.Objects(), true
	values := group.Values
	for _, by := range q.Values("count") {
		n := 1
		if by == query.ByKind {
			n = 2
		}
		if len(values) < n {
			return row, fmt.Errorf("search answers with %d values of a group", len(group.Values))
		}
		value := values[n-1]
		if by == query.ByKind && values[0] != "" {
			value += "." + values[0]
		}
		values = values[n:]
		row.Cells = append(row.Cells, orNone(value))
		var is bool
		narrow, is = narrowed(narrow, by, value)
		narrows = narrows && is
	}
	if len(values) > 0 {
		return row, fmt.Errorf("search answers with %d values of a group", len(group.Values))
	}
	if narrows {
		row.Link, row.Label = linkTo(narrow, ""), strings.Join(row.Cells, ", ")
	}
	return row, nil
}

func orNone(value string) string {
	if strings.TrimSpace(value) == "" {
		return "(none)"
	}
	return value
}

// narrowed returns a query of those objects that have a value, if the box can say that.
func narrowed(q query.Query, by, value string) (narrow query.Query, is bool) {
	field := func(key, text string) (query.Query, bool) {
		return query.Query{Parts: append(slices.Clone(q.Parts), query.Part{Key: key, Value: text})}, true
	}
	switch by {
	case "cluster", "namespace", query.ByKind:
		if value == "" {
			return field("label", noNamespaces)
		}
		return q.With(by, value), true
	case "group", "version", "resource":
		return q, false
	}
	if value == container {
		return q, false
	}
	return field("field", query.Having(by, value))
}
