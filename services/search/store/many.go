// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// manyMatches is how many objects with its words a search counts, and sorts to find a page. If more have them, the page has the next ones
// that the database meets in the order of the list, and search does not know how many follow. Of 850,000 objects, PostgreSQL counted and
// sorted the 85,000 with a word in 1.1 s. It meets the first 100 of them in some ms.
const manyMatches = 10_000

// countMatches decides whether a search by words reads objects in the order of the list.
func countMatches(ctx context.Context, t *database.Tx, b *search) error {
	switch q := b.q; {
	case len(q.Words) == 0, q.Limit == 0, q.Offset > 0, !b.isDefault(), b.byLabels, q.DiffersFrom != nil:
		return nil
	}
	find := b.SQL("SELECT o.id FROM objects o")
	b.whereButForWords(find)
	exact := b.words(find, roughly)
	if err := b.checkFilter(find); err != nil {
		return err
	}
	matches := []int64{}
	err := t.Each(ctx, find.Add(" LIMIT ?", b.many+1), func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		matches = append(matches, id)
		return err
	})
	if err != nil {
		return err
	}
	n := int64(len(matches))
	switch b.inOrder = n > b.many; {
	case b.inOrder:
		return t.ReadInOrder(ctx, t)
	case !exact: // an index has found them, which need not happen again
		b.matches = matches
	case b.past == nil:
		b.known = &n
	}
	return nil
}

// parts returns the searches whose objects make the list, one after the other: the search itself, or one for each kind, because an index
// has the objects of a kind in the order of the list.
func (b *search) parts() []*search {
	if !b.inOrder {
		return []*search{b}
	}
	var parts []*search
	for _, kind := range slices.Sorted(slices.Values(b.kinds)) {
		part := *b
		part.kinds = []int64{kind}
		if b.filter != nil && b.q.Owner == nil { // what the reader may read of other kinds takes the database time
			if part.readable = readableOf(b.readable, kind); len(part.readable) == 0 {
				continue
			}
		}
		if b.past != nil && b.past.after != nil {
			if kind < b.past.after.kindID {
				continue
			}
			if kind > b.past.after.kindID {
				past := *b.past
				past.after = nil
				part.past = &past
			}
		}
		parts = append(parts, &part)
	}
	return parts
}

// readableOf returns what a filter allows of a kind.
func readableOf(all []readable, kind int64) (some []readable) {
	for _, v := range all {
		if slices.Contains(v.kinds, kind) {
			v.kinds = []int64{kind}
			some = append(some, v)
		}
	}
	return some
}
