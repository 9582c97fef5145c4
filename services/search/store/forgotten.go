// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Clusters name the resources that they have. So the names of those that none has any more go, once no change of the history and no watch
// can name them.

// kindsAtOnce is how many kinds ForgetKinds looks at.
const kindsAtOnce = 1000

// errKindGone says that a kind went while a stream of it was opened. To open it again makes the kind anew.
var errKindGone = errors.New("the kind was forgotten just now: try again")

// UnusedKinds returns the IDs of some kinds that no cluster has. Call ForgetKinds for those that stay so for long.
func (s *Store) UnusedKinds(ctx context.Context) (ids []int64, err error) {
	err = s.reading(ctx, func(t *transaction) error {
		// With SQLite, a new ID is higher than the last revision, and so than all IDs that were forgotten.
		ids, err = t.ids(ctx, t.sql("SELECT k.id FROM kinds k WHERE k.id < ("+lastRevision+") AND NOT EXISTS (SELECT 1 FROM streams s WHERE s.kind_id = k.id)"+
			" ORDER BY k.id LIMIT ?", kindsAtOnce))
		return err
	})
	return ids, err
}

// ForgetKinds removes kinds that no cluster has had since a time, if the history does not go back to then.
func (s *Store) ForgetKinds(ctx context.Context, ids []int64, since time.Time) error {
	slices.Sort(ids)
	return s.within(ctx, func(t *transaction) error {
		if _, err := t.revisions(ctx, 0); err != nil {
			return err
		}
		oldest, err := value[int64](ctx, t, t.sql("SELECT committed_at FROM changes ORDER BY revision LIMIT 1"))
		if err != nil && !isNone(err) || err == nil && oldest <= since.UnixMilli() {
			return err
		}
		for part := range slices.Chunk(ids, kindsAtOnce) {
			if t.dialect != sqlite { // a stream that is being opened holds its kind: the next statement sees it
				if _, err := t.ids(ctx, list(t.sql("SELECT id FROM kinds WHERE id IN "), part).add(" ORDER BY id FOR UPDATE")); err != nil {
					return err
				}
			}
			unused := list(t.sql("DELETE FROM kinds WHERE id IN "), part).add(" AND NOT EXISTS (SELECT 1 FROM streams s WHERE s.kind_id = kinds.id)")
			if _, err := t.exec(ctx, unused); err != nil {
				return err
			}
		}
		return nil
	})
}

// holdKind keeps a kind until the transaction ends.
func (t *transaction) holdKind(ctx context.Context, id int64) error {
	lock := map[dialect]string{sqlite: "", postgres: " FOR SHARE", mysqlFamily: " LOCK IN SHARE MODE"}[t.dialect]
	_, err := value[int64](ctx, t, t.sql("SELECT id FROM kinds WHERE id = ?"+lock, id))
	if isNone(err) {
		err = errKindGone
	}
	return err
}
