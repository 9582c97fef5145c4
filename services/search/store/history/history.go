// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// The history has a row in the table changes for each change of an object, under the revision of the change. The state of an object that
// was replaced or deleted is in the table versions, under the revision of that state. So a change costs a narrow row, and a copy inside of
// the database of the state that it ends. Both go by age. The table history has the last change that is gone. See Transition for how they
// are read.

// Record is a change of an object of a stream.
type Record struct {
	// Revision is that of the change, and Previous that of the state before, or 0 of an object that is new.
	Revision, Previous int64
	ID                 int64
	Deleted            bool
	Namespace, Name    string
}

// KeepStates copies the states of objects that are to be replaced or deleted.
func KeepStates(ctx context.Context, t *database.Tx, ids []int64) error {
	return t.ForIDs(ctx, ids, func(ids []int64) *database.Statement {
		return database.AnyOf(t.SQL("INSERT INTO versions (revision, object) SELECT revision, object FROM objects WHERE id"), ids)
	})
}

// AddChanges writes changes.
func AddChanges(ctx context.Context, t *database.Tx, stream *streams.Stream, records []Record) error {
	now := time.Now().UnixMilli()
	rows := make([][]any, 0, len(records))
	for _, r := range records {
		rows = append(rows, []any{r.Revision, r.Previous, r.Deleted, r.ID, stream.KindID, stream.ClusterID, stream.Cluster, r.Namespace, r.Name,
			now})
	}
	return t.Insert(ctx, "changes", []string{"revision", "previous", "deleted", "object_id", "kind_id", "cluster_id", "cluster", "namespace",
		"name", "committed_at"}, rows, "")
}

// PrunedAtOnce is how many changes Prune removes in one transaction.
const PrunedAtOnce = 500

// Prune removes the changes that were committed before a time. It returns whether more are left to remove: call it again then.
func (s *Log) Prune(ctx context.Context, before time.Time) (more bool, err error) {
	err = s.db.Within(ctx, func(t *database.Tx) error {
		// InnoDB also locks where rows could be inserted. So this takes turns with writers.
		if _, err := t.Revisions(ctx, 0); err != nil {
			return err
		}
		var last, lastAt int64
		var ended []int64
		old, n := true, 0
		find := t.SQL("SELECT revision, previous, committed_at FROM changes ORDER BY revision LIMIT ?", PrunedAtOnce)
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
		more = n == PrunedAtOnce || names == database.RemovedAtOnce
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

// pruneNamespaces removes namespaces that were gone before the history begins, database.RemovedAtOnce at most. It returns how many these
// were.
func pruneNamespaces(ctx context.Context, t *database.Tx) (int64, error) {
	return t.Exec(ctx, t.DeleteSome("namespaces", "cluster_id, name", database.RemovedAtOnce,
		"uid = '' AND since <= (SELECT pruned FROM history WHERE id = 1)"))
}

// RevisionAt returns the revision of a moment. It returns ErrPruned or ErrFuture if the history does not have it. The history has no time
// before the first change: clusters had objects then, which search did not know.
func RevisionAt(ctx context.Context, t *database.Tx, m *query.Moment) (int64, error) {
	switch {
	case m.Latest:
		return database.Value[int64](ctx, t, t.SQL("SELECT last FROM revisions WHERE id = 1"))
	case m.Time.IsZero():
		_, err := checkRevision(ctx, t, m.Revision)
		return m.Revision, err
	}
	var pruned, prunedAt, last int64
	find := t.SQL("SELECT h.pruned, h.pruned_at, r.last FROM history h, revisions r WHERE h.id = 1 AND r.ID = 1")
	if err := t.Row(ctx, find).Scan(&pruned, &prunedAt, &last); err != nil {
		return 0, err
	}
	at := m.Time.UnixMilli()
	if at < prunedAt && pruned > 0 {
		return 0, ErrPruned
	}
	// Changes are in the order of time, as far as the clocks of writers agree, so halving finds the last one.
	low, high := pruned, last
	for low < high {
		middle := low + (high-low+1)/2
		var revision, committed int64
		next := t.SQL("SELECT revision, committed_at FROM changes WHERE revision >= ? ORDER BY revision LIMIT 1", middle)
		err := t.Row(ctx, next).Scan(&revision, &committed)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			high = middle - 1
		case err != nil:
			return 0, err
		case revision > high || committed > at:
			high = middle - 1
		default:
			low = revision
		}
	}
	if low == 0 && last > 0 {
		return 0, ErrPruned
	}
	return low, nil
}
