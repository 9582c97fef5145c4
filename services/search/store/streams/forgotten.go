// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Clusters name the resources that they have. So the names of those that none has any more go, once no change of the history and no watch
// can name them.

// kindsAtOnce is how many kinds ForgetKinds looks at.
const kindsAtOnce = 1000

// errKindGone says that a kind went while a stream of it was opened. To open it again makes the kind anew.
var errKindGone = errors.New("the kind was forgotten just now: try again")

// UnusedKinds returns the IDs of some kinds that no cluster has. Call ForgetKinds for those that stay so for long.
func (s *Registry) UnusedKinds(ctx context.Context) (ids []int64, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		// A new ID is higher than the last revision if IDs are reused, and so than all IDs that were forgotten.
		ids, err = t.IDs(ctx, t.SQL("SELECT k.id FROM kinds k WHERE k.id < ("+database.LastRevision+") AND NOT EXISTS (SELECT 1 FROM streams s "+
			"WHERE s.kind_id = k.id)"+
			" ORDER BY k.id LIMIT ?", kindsAtOnce))
		return err
	})
	return ids, err
}

// ForgetKinds removes kinds that no cluster has had since a time, if the history does not go back to then.
func (s *Registry) ForgetKinds(ctx context.Context, ids []int64, since time.Time) error {
	slices.Sort(ids)
	return s.db.Within(ctx, func(t *database.Tx) error {
		if _, err := t.Revisions(ctx, 0); err != nil {
			return err
		}
		oldest, err := database.Value[int64](ctx, t, t.SQL("SELECT committed_at FROM changes ORDER BY revision LIMIT 1"))
		if err != nil && !database.IsNone(err) || err == nil && oldest <= since.UnixMilli() {
			return err
		}
		for part := range slices.Chunk(ids, kindsAtOnce) {
			if lock := t.LockRows(); lock != "" { // a stream that is being opened holds its kind: the next statement sees it
				if _, err := t.IDs(ctx, database.List(t.SQL("SELECT id FROM kinds WHERE id IN "), part).Add(" ORDER BY id"+lock)); err != nil {
					return err
				}
			}
			const unused = " AND NOT EXISTS (SELECT 1 FROM streams s WHERE s.kind_id = kinds.id)"
			if _, err := t.Exec(ctx, database.List(t.SQL("DELETE FROM kinds WHERE id IN "), part).Add(unused)); err != nil {
				return err
			}
		}
		return nil
	})
}

// holdKind keeps a kind until the transaction ends.
func holdKind(ctx context.Context, t *database.Tx, id int64) error {
	_, err := database.Value[int64](ctx, t, t.SQL("SELECT id FROM kinds WHERE id = ?"+t.ShareRows(), id))
	if database.IsNone(err) {
		err = errKindGone
	}
	return err
}
