// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Errors of questions about the past.
var (
	// ErrPruned says that the history does not go back to a revision.
	ErrPruned = errors.New("the history does not go back that far")
	// ErrFuture says that the database has not come to a revision yet.
	ErrFuture = errors.New("the database has not come to this revision yet")
)

// Transition is a change of an object, with the states before and after it.
type Transition struct {
	Revision int64
	KindID   int64
	// Before is nil for an object that is new, and After for one that is deleted.
	Before, After *query.Subject
	CommittedAt   time.Time
}

// History is a part of the history, or all of it that is new.
type History struct {
	Transitions []*Transition
	// UpTo is the revision up to which Transitions is complete.
	UpTo int64
	// Rights is the last change of rights in any cluster at UpTo, or later.
	Rights int64
}

// Subject returns the state that the transition has in any case.
func (t *Transition) Subject() *query.Subject {
	if t.After != nil {
		return t.After
	}
	return t.Before
}

// Size returns about how many bytes the transition takes.
func (t *Transition) Size() int {
	size := 500
	for _, state := range []*query.Subject{t.Before, t.After} {
		if state != nil {
			size += len(state.JSON)
		}
	}
	return size
}

// pageBytes bounds the objects of a page of transitions, and PageRows their number.
const (
	pageBytes = 8 << 20
	PageRows  = 1000
)

// errEnough ends a page.
var errEnough = errors.New("the page is full")

// Revision returns the last revision.
func (s *Log) Revision(ctx context.Context) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, database.StatementTimeout)
	defer cancel()
	err = s.db.Reader().QueryRowContext(ctx, "SELECT last FROM revisions WHERE id = 1").Scan(&revision)
	return revision, err
}

// HistoryBegins returns the first revision of which the history has the state, and its time.
func (s *Log) HistoryBegins(ctx context.Context) (revision int64, at time.Time, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		var milliseconds int64
		find := t.SQL("SELECT pruned, pruned_at FROM history WHERE id = 1")
		err := t.Row(ctx, find).Scan(&revision, &milliseconds)
		if revision == 0 && err == nil { // nothing is forgotten yet
			find = t.SQL("SELECT revision, committed_at FROM changes ORDER BY revision LIMIT 1")
			err = t.Row(ctx, find).Scan(&revision, &milliseconds)
			if errors.Is(err, sql.ErrNoRows) {
				milliseconds, err = time.Now().UnixMilli(), nil
			}
		}
		at = time.UnixMilli(milliseconds)
		return err
	})
	return revision, at, err
}

// Transitions returns what has changed after a revision, in order, in objects of some kinds. If there is much, or if the revision is long
// ago, that is not everything: call it again from UpTo. It returns ErrPruned or ErrFuture if the history does not have the revision. If
// about is not nil, it leaves out what is of no interest. It ignores the scope of the store, and keeps to its bounds.
func (s *Log) Transitions(ctx context.Context, after int64, kinds []int64, about *Interest) (h History, err error) {
	read := s.db.Reading
	if about != nil { // for a watch, and not for all of them
		read = s.db.Searching
	}
	err = read(ctx, func(t *database.Tx) error {
		h = History{}
		last, err := checkRevision(ctx, t, after)
		if err != nil {
			return err
		}
		h.UpTo = min(last, after+revisionsAtOnce)
		if h.Rights, err = access.RightsChanged(ctx, t); err != nil || h.UpTo == after || len(kinds) == 0 {
			return err
		}
		find := t.SQL(transitionsFrom+" WHERE c.revision > ? AND c.revision <= ? AND c.kind_id", after, h.UpTo)
		database.OneOf(find, kinds)
		if about != nil {
			var found []int64
			if found, h.UpTo, err = revisionsOf(ctx, t, after, h.UpTo, kinds, about); err != nil || len(found) == 0 {
				return err
			}
			find = t.SQL(transitionsFrom + " WHERE c.revision")
			database.OneOf(find, found)
		}
		return readTransitions(ctx, t, find.Add(" ORDER BY c.revision LIMIT ?", PageRows), s.bounds, &h)
	})
	return h, err
}

// transitionsFrom selects transitions for readTransitions. A state that was replaced since is in versions, and any other in objects.
var transitionsFrom = "SELECT c.revision, c.kind_id, c.cluster, c.namespace, c.name, c.committed_at, b.object, " +
	database.Original("c.previous") +
	", COALESCE(v.object, o.object), " + database.Original("c.revision") + `
FROM changes c LEFT JOIN versions b ON b.revision = c.previous
LEFT JOIN versions v ON v.revision = c.revision
LEFT JOIN objects o ON o.id = c.object_id AND o.revision = c.revision`

// readTransitions reads a page.
func readTransitions(ctx context.Context, t *database.Tx, find *database.Statement, bounds database.Bounds, h *History) error {
	size, most := 0, pageBytes
	if bounds.Page > 0 {
		most = int(bounds.Page)
	}
	err := t.Each(ctx, find, func(scan func(...any) error) error {
		if size > most {
			return errEnough
		}
		one := &Transition{}
		var committed int64
		var is query.Subject
		var before, beforeOriginal, after, afterOriginal []byte
		if err := scan(&one.Revision, &one.KindID, &is.Cluster, &is.Namespace, &is.Name, &committed, &before, &beforeOriginal, &after,
			&afterOriginal); err != nil {
			return err
		}
		before, after = database.Served(before, beforeOriginal), database.Served(after, afterOriginal)
		one.CommittedAt = time.UnixMilli(committed)
		if before != nil {
			one.Before = &query.Subject{Cluster: is.Cluster, Namespace: is.Namespace, Name: is.Name, JSON: before}
		}
		if after != nil {
			one.After = &query.Subject{Cluster: is.Cluster, Namespace: is.Namespace, Name: is.Name, JSON: after}
		}
		size += one.Size()
		h.Transitions = append(h.Transitions, one)
		return bounds.Keep(one.Size())
	})
	if n := len(h.Transitions); n > 0 && (errors.Is(err, errEnough) || n == PageRows) {
		h.UpTo = h.Transitions[n-1].Revision
		return nil
	}
	return err
}

// checkRevision returns the last revision, unless the history does not have another one.
func checkRevision(ctx context.Context, t *database.Tx, revision int64) (last int64, err error) {
	if last, err = database.Value[int64](ctx, t, t.SQL("SELECT last FROM revisions WHERE id = 1")); err != nil {
		return 0, err
	}
	pruned, err := database.Value[int64](ctx, t, t.SQL("SELECT pruned FROM history WHERE id = 1"))
	switch {
	case err != nil:
	case revision < pruned:
		err = ErrPruned
	case revision > last:
		err = ErrFuture
	}
	return last, err
}
