// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// comparison is the model of an object in two clusters.
type comparison struct {
	layout
	identity
	With            string
	Link, OtherLink string
	Rows            []comparedRow
	Same, TooLarge  bool
}

// comparedRow is a line of both texts. Marks are - and + where they differ.
type comparedRow struct{ Left, Right diffLine }

// maxAround is how many equal lines are shown around others: all.
const maxAround = 1 << 20

// compare shows the same object in two clusters side by side.
func (c *console) compare(req *http.Request) (model, error) {
	id, err := identityOf(req.URL.Query())
	if err != nil {
		return nil, err
	}
	values := id.values()
	values.Set("cluster", req.URL.Query().Get("with"))
	other, err := identityOf(values)
	if err != nil {
		return nil, err
	}
	left, err := c.get(req.Context(), id, "")
	if err != nil {
		return nil, err
	}
	right, err := c.get(req.Context(), other, "")
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", other.Cluster, err)
	}
	page := &comparison{
		layout:   layout{Title: id.Name + " in " + id.Cluster + " and " + other.Cluster},
		identity: id, With: other.Cluster, Link: id.Link(), OtherLink: other.Link(),
	}
	a, large := left.comparable()
	b, larger := right.comparable()
	if large || larger {
		page.TooLarge = true
		return page, nil
	}
	page.Same = a == b
	page.Rows, err = sideBySide(a, b)
	return page, err
}

// sideBySide puts lines that replace one another into the same row.
func sideBySide(a, b string) (rows []comparedRow, err error) {
	if a == b {
		for line := range strings.SplitSeq(strings.TrimSuffix(a, "\n"), "\n") {
			rows = append(rows, comparedRow{diffLine{"", line}, diffLine{"", line}})
		}
		return rows, nil
	}
	unified, err := udiff.ToUnified("a", "b", a, udiff.Strings(a, b), maxAround)
	if err != nil {
		return nil, err
	}
	var removed, added []string
	flush := func() {
		for i := range max(len(removed), len(added)) {
			var row comparedRow
			if i < len(removed) {
				row.Left = diffLine{"-", removed[i]}
			}
			if i < len(added) {
				row.Right = diffLine{"+", added[i]}
			}
			rows = append(rows, row)
		}
		removed, added = nil, nil
	}
	for i, line := range strings.Split(strings.TrimSuffix(unified, "\n"), "\n") {
		if i < 3 || line == "" { // the names of the files, and the place
			continue
		}
		switch line[0] {
		case '-':
			removed = append(removed, line[1:])
		case '+':
			added = append(added, line[1:])
		case ' ':
			flush()
			rows = append(rows, comparedRow{diffLine{"", line[1:]}, diffLine{"", line[1:]}})
		}
	}
	flush()
	return rows, nil
}
