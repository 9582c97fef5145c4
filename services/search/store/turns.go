// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"strings"
	"time"
)

// Turn runs a transaction when it may, and learns how many rows it has changed.
type Turn func(ctx context.Context, transaction func() (rows int, err error)) error

// InTurns returns the store with turns for work that takes several transactions: the end of a list, and streams that begin or go. Other writers have their turn
// between two of them. So one cluster with many objects does not keep the others from writing.
func (s *Store) InTurns(turn Turn) *Store {
	limited := *s
	limited.turn = turn
	return &limited
}

// inTurn runs a transaction of such work.
func (s *Store) inTurn(ctx context.Context, do func(t *transaction) (rows int, err error)) error {
	run := func() (rows int, err error) {
		err = s.within(ctx, func(t *transaction) error {
			rows, err = do(t)
			return err
		})
		return rows, err
	}
	if s.turn != nil {
		return s.turn(ctx, run)
	}
	_, err := run()
	return err
}

// remove removes the objects of a stream for which a condition holds. Every transaction calls a function when some are gone. done is set for the last one.
// A stream without an epoch is being removed by another replica than its writer.
func (s *Store) remove(ctx context.Context, stream *Stream, then func(t *transaction, done bool) error, condition string, values ...any) error {
	for done := false; !done; {
		err := s.inTurn(ctx, func(t *transaction) (removed int, err error) {
			if _, err := t.revisions(ctx, 1); err != nil {
				return 0, err
			}
			if stream.epoch != 0 {
				if err := t.hold(ctx, stream, time.Time{}); err != nil {
					return 0, err
				}
			}
			if removed, err = t.removeSome(ctx, stream, condition, values...); err != nil {
				return 0, err
			}
			if stream.rights && removed > 0 {
				if err := t.changeRightsOf(ctx, stream); err != nil {
					return 0, err
				}
			}
			if err := t.advance(ctx, stream, "", -removed); err != nil {
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
	return s.remove(ctx, stream, func(t *transaction, _ bool) error {
		return t.all(ctx, t.sql("UPDATE streams SET resource_version = '' WHERE id = ?", stream.id))
	}, condition, values...)
}
