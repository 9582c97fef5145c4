// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// remove removes the objects of a stream for which a condition holds. Every transaction calls a function when some are gone. done is set
// for the last one. A stream without an epoch is being removed by another replica than its writer.
func (s *Store) remove(ctx context.Context, stream *Stream, then func(t *database.Tx, done bool) error, condition string,
	values ...any) error {
	for done := false; !done; {
		err := s.db.InTurn(ctx, func(t *database.Tx) (removed int, err error) {
			if _, err := t.Revisions(ctx, 1); err != nil {
				return 0, err
			}
			if stream.epoch != 0 {
				if err := hold(ctx, t, stream, time.Time{}); err != nil {
					return 0, err
				}
			}
			if removed, err = removeSome(ctx, t, stream, condition, values...); err != nil {
				return 0, err
			}
			if stream.rights && removed > 0 {
				if err := changeRightsOf(ctx, t, stream); err != nil {
					return 0, err
				}
			}
			if err := advance(ctx, t, stream, "", -removed); err != nil {
				return 0, err
			}
			done = removed < removedAtOnce
			return removed, then(t, done)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveOtherNamespaces removes the objects of a stream that are not in some namespaces, some at a time. If it fails, it may be called
// again. The next writer lists, because it may want others.
func (s *Store) RemoveOtherNamespaces(ctx context.Context, stream *Stream, keep []string) error {
	values := make([]any, 0, len(keep))
	for _, namespace := range keep {
		values = append(values, namespace)
	}
	condition := " AND namespace NOT IN (" + strings.TrimSuffix(strings.Repeat("?, ", len(keep)), ", ") + ")"
	return s.remove(ctx, stream, func(t *database.Tx, _ bool) error {
		return t.All(ctx, t.SQL("UPDATE streams SET resource_version = '' WHERE id = ?", stream.id))
	}, condition, values...)
}
