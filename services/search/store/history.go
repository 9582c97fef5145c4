// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// The history has a row in the table changes for each change of an object, under the revision of the change. The state of an object that
// was replaced or deleted is in the table versions, under the revision of that state. So a change costs a narrow row, and a copy inside of
// the database of the state that it ends. Both go by age. The table history has the last change that is gone. See Transition for how they
// are read.

// record is a row of the table changes.
type record struct {
	// revision is that of the change, and previous that of the state before, or 0 of an object that is new.
	revision, previous int64
	id                 int64
	deleted            bool
	namespace, name    string
}

// keep copies the states of objects that are to be replaced or deleted.
func keep(ctx context.Context, t *database.Tx, ids []int64) error {
	return t.ForIDs(ctx, ids, func(ids []int64) *database.Statement {
		return database.AnyOf(t.SQL("INSERT INTO versions (revision, object) SELECT revision, object FROM objects WHERE id"), ids)
	})
}

func recordChanges(ctx context.Context, t *database.Tx, stream *Stream, records []record) error {
	now := time.Now().UnixMilli()
	rows := make([][]any, 0, len(records))
	for _, r := range records {
		rows = append(rows, []any{r.revision, r.previous, r.deleted, r.id, stream.kindID, stream.clusterID, stream.cluster, r.namespace, r.name,
			now})
	}
	return t.Insert(ctx, "changes", []string{"revision", "previous", "deleted", "object_id", "kind_id", "cluster_id", "cluster", "namespace",
		"name", "committed_at"}, rows, "")
}

// removedAtOnce is how many objects one transaction removes. Nobody else writes meanwhile.
const removedAtOnce = 500

// removeSome deletes objects of a stream for which a condition holds, removedAtOnce at most, and records that. It returns how many these
// were. The transaction must have locked the counter of revisions.
func removeSome(ctx context.Context, t *database.Tx, stream *Stream, condition string, values ...any) (removed int, err error) {
	var records []record
	var ids []int64
	const ofStream = "SELECT id, revision, namespace, name FROM objects WHERE kind_id = ? AND cluster_id = ?"
	find := t.SQL(ofStream, stream.kindID, stream.clusterID).Add(condition, values...)
	err = t.Each(ctx, find.Add(" ORDER BY namespace, name LIMIT ?", removedAtOnce), func(scan func(...any) error) error {
		r := record{deleted: true}
		err := scan(&r.id, &r.previous, &r.namespace, &r.name)
		records, ids = append(records, r), append(ids, r.id)
		return err
	})
	if err != nil || len(records) == 0 {
		return 0, err
	}
	first, err := t.Revisions(ctx, len(records))
	if err != nil {
		return 0, err
	}
	for i := range records {
		records[i].revision = first + int64(i)
	}
	return len(records), database.InTurn(
		func() error { return keep(ctx, t, ids) },
		func() error { return deleteObjects(ctx, t, ids) },
		func() error { return recordChanges(ctx, t, stream, records) },
	)
}

// prunedAtOnce is how many changes Prune removes in one transaction.
const prunedAtOnce = 500

// Prune removes the changes that were committed before a time. It returns whether more are left to remove: call it again then.
func (s *Store) Prune(ctx context.Context, before time.Time) (more bool, err error) {
	err = s.db.Within(ctx, func(t *database.Tx) error {
		// InnoDB also locks where rows could be inserted. So this takes turns with writers.
		if _, err := t.Revisions(ctx, 0); err != nil {
			return err
		}
		var last, lastAt int64
		var ended []int64
		old, n := true, 0
		find := t.SQL("SELECT revision, previous, committed_at FROM changes ORDER BY revision LIMIT ?", prunedAtOnce)
		err := t.Each(ctx, find, func(scan func(...any) error) error {
			var revision, previous, committed int64
			if err := scan(&revision, &previous, &committed); err != nil {
				return err
			}
			if old = old && committed < before.UnixMilli(); !old {
				return nil
			}
			n++
			if last, lastAt = revision, committed; previous != 0 {
				ended = append(ended, previous)
			}
			return nil
		})
		if err == nil && n > 0 {
			err = pruneChanges(ctx, t, last, lastAt, ended)
		}
		if err != nil {
			return err
		}
		names, err := pruneNamespaces(ctx, t)
		more = n == prunedAtOnce || names == removedAtOnce
		return err
	})
	return more, err
}

// pruneChanges removes the changes up to the last one that is to go, and the states that they have ended.
func pruneChanges(ctx context.Context, t *database.Tx, last, lastAt int64, ended []int64) error {
	if err := t.All(ctx, t.SQL("UPDATE history SET pruned = ?, pruned_at = ? WHERE id = 1 AND pruned < ?", last, lastAt, last)); err != nil {
		return err
	}
	for _, table := range []string{"versions", "originals"} {
		err := t.ForIDs(ctx, ended, func(revisions []int64) *database.Statement {
			return database.AnyOf(t.SQL("DELETE FROM "+table+" WHERE revision"), revisions)
		})
		if err != nil {
			return err
		}
	}
	return t.All(ctx, t.SQL("DELETE FROM changes WHERE revision <= ?", last))
}

// pruneNamespaces removes namespaces that were gone before the history begins, removedAtOnce at most. It returns how many these were.
func pruneNamespaces(ctx context.Context, t *database.Tx) (int64, error) {
	return t.Exec(ctx, t.DeleteSome("namespaces", "cluster_id, name", removedAtOnce,
		"uid = '' AND since <= (SELECT pruned FROM history WHERE id = 1)"))
}
