// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// foundByTerms reports whether the database finds the objects with a label by an index that has the kinds, too.
func (b *search) foundByTerms(r labels.Requirement) bool { return b.FindsByTerms(r, len(b.kinds)) }

func (b *search) notFoundByTerms(r labels.Requirement) bool { return !b.foundByTerms(r) }

// few is how many objects PostgreSQL sorts faster than it goes through all of a kind in their order.
const few = 20_000

// chooseIndex decides how a database with an index of terms finds a page of objects with certain labels. Its planner knows neither how many
// there are nor that their terms are of one kind, and combines indexes of millions of objects to learn that.
func chooseIndex(ctx context.Context, t *database.Tx, b *search) error {
	if !slices.ContainsFunc(b.q.Labels, b.foundByTerms) {
		return nil
	}
	find := t.SQL("SELECT COUNT(*) FROM (SELECT 1 FROM objects o WHERE 1 = 1")
	for _, r := range b.q.Labels {
		if b.foundByTerms(r) {
			b.Label(find, r, b.kinds)
		}
	}
	n, err := database.Value[int64](ctx, t, find.Add(" LIMIT ?) found", few+1))
	b.byLabels = n <= few
	if b.byLabels && b.isWholeButForLabels() && b.clusters == nil && !slices.ContainsFunc(b.q.Labels, b.notFoundByTerms) {
		b.known = &n
	}
	return err
}
