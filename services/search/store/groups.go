// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Counted is how many objects have the same values.
type Counted struct {
	Values []string
	Count  int64
}

// Counts are the groups of a search, the largest first.
type Counts struct {
	// Page has what a list has besides its objects.
	Page
	Groups []Counted
	// AllGroups is how many groups the search has, and Objects how many objects all of them.
	AllGroups, Objects int64
}

// Counts counts the objects of a search by query.GroupBy. Of the values of a field, the first query.RankLength characters count. Nothing
// and null are "", and objects and lists query.Container.
func (s *Store) Counts(ctx context.Context, patterns []schema.GroupVersionResource, q *query.Query) (*Counts, error) {
	var counts *Counts
	err := s.db.Searching(ctx, func(t *database.Tx) (err error) {
		counts = &Counts{Page: Page{Remaining: -1}}
		if counts.Revision, err = database.Value[int64](ctx, t, t.SQL(database.LastRevision)); err != nil {
			return err
		}
		b, err := newSearch(ctx, t, s, patterns, q, nil)
		if err != nil {
			return err
		}
		counts.LeftOut = b.leftOut
		if b.readsNothing() {
			return nil
		}
		if counts.SyncedAt, err = ages(ctx, t, b); err != nil {
			return err
		}
		if err := t.ShareWork(ctx, t); err != nil {
			return err
		}
		find := b.groups()
		if err := b.checkFilter(find); err != nil {
			return err
		}
		return t.Each(ctx, find, func(scan func(...any) error) error {
			group := Counted{Values: make([]string, len(q.GroupBy))}
			into := []any{&group.Count, &counts.AllGroups, &counts.Objects}
			size := 0
			for i := range group.Values {
				into = append(into, &group.Values[i])
			}
			err := scan(into...)
			for _, value := range group.Values {
				size += len(value)
			}
			counts.Groups = append(counts.Groups, group)
			return cmp.Or(err, b.bounds.Keep(size))
		})
	})
	return counts, err
}

// groups selects the groups.
func (b *search) groups() *database.Statement {
	var names []string
	s := b.SQL("SELECT ")
	for i, g := range b.q.GroupBy {
		names = append(names, fmt.Sprint("g", i))
		switch {
		case len(g.Path) > 0:
			s.RankText(g.Path)
		case g.Column == query.Kind: // clusters may have different kinds for one resource
			s.RankText([]query.Step{{Name: "kind"}})
		default:
			s.ColumnText(sortKeys[g.Column][0].column)
		}
		s.Add(" AS " + names[i] + ", ")
	}
	s.Add("1" + fromObjects)
	b.where(s)
	all := strings.Join(names, ", ")
	whole := s.Within("SELECT COUNT(*) AS n, COUNT(*) OVER () AS other_groups, SUM(COUNT(*)) OVER () AS objects, "+all+" FROM (",
		") f GROUP BY "+all+" ORDER BY n DESC, "+all)
	return whole.Add(" LIMIT ?", cmp.Or(b.q.Limit, query.StandardGroups))
}
