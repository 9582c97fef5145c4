// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Each stream has the number of its objects, which changes in the transactions that write them. A count of whole resources adds these
// numbers up, so it takes no longer for more objects. The number counts as long as the writers of the stream have kept it: versions of
// search before schema 7 do not.

// total returns how many objects a search has.
func total(ctx context.Context, t *database.Tx, b *search) (int64, error) {
	if b.known != nil {
		return *b.known, nil
	}
	if b.isWhole() {
		var objects, unknown int64
		sum := b.sum()
		if err := t.Row(ctx, sum).Scan(&objects, &unknown); err != nil || unknown == 0 {
			return objects, err
		}
	}
	return database.Value[int64](ctx, t, b.count())
}

// countsByTheWay reports whether a page is to count all objects. To compare a field, PostgreSQL unpacks objects, which takes most of the
// time of such a search. So it unpacks them once for both.
func (b *search) countsByTheWay() bool {
	return b.UnpacksObjects() && !b.inOrder && b.q.WithRemaining && b.q.Limit > 0 && b.q.Offset == 0 && len(b.q.Fields)+len(b.q.Words) > 0
}

// isWhole reports whether a search is for all objects of its kinds and clusters.
func (b *search) isWhole() bool { return len(b.q.Labels) == 0 && b.isWholeButForLabels() }

// isWholeButForLabels reports the same of a search without its labels.
func (b *search) isWholeButForLabels() bool {
	for _, v := range b.readable {
		if !v.IsAll() {
			return false
		}
	}
	q := b.q
	return q.Namespaces.Empty() && q.Names.Empty() && len(q.Fuzzy)+len(q.Words)+len(q.Fields) == 0 && q.Since.IsZero() && q.Before.IsZero() &&
		q.Owner == nil
}

// sum adds up the objects of streams, and counts the streams whose number of objects is not known.
func (b *search) sum() *database.Statement {
	s := b.SQL("SELECT COALESCE(SUM(s.objects), 0), COALESCE(SUM(CASE WHEN s.counted = s.epoch THEN 0 ELSE 1 END), 0) FROM streams s" +
		" WHERE s.kind_id")
	database.OneOf(s, b.kinds)
	if b.clusters != nil {
		database.OneOf(s.Add(" AND s.cluster_id"), b.clusters)
	}
	b.within(s, "s")
	return s
}
