// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
)

// A state of an object begins with a change, and ends with the next one. So the state at a revision is in two places: objects that
// have not changed since are in the table objects, with revisions up to that one. Of every other object, the history has one change that
// came later and ended a state which had begun before, and the table versions has that state.

// past is an earlier state that a search looks at, from some place on.
type past struct {
	// revision is that of the state, and last the latest one.
	revision, last int64
	// from is the revision of query.DiffersFrom. It is -1 if there is none.
	from int64
	// after is the last object of the page before. It is nil for a first page.
	after *entry
	// parents own what the search asks for. They are nil if the query needs no other.
	parents *parents
}

// pastOf returns the state that a query asks for, or nil if that is the first page of the latest one.
func pastOf(ctx context.Context, t *database.Tx, q *query.Query, last int64) (*past, error) {
	if q.At == nil && q.DiffersFrom == nil && q.After == nil {
		return nil, nil
	}
	p := &past{revision: last, last: last, from: -1}
	var err error
	if q.At != nil {
		p.revision, err = history.RevisionAt(ctx, t, q.At)
	}
	if q.DiffersFrom != nil && err == nil {
		p.from, err = history.RevisionAt(ctx, t, q.DiffersFrom)
	}
	return p, err
}

// where appends what holds for the objects that have been as they are since the state, and that come after the page before.
func (p *past) where(s *database.Statement, b *search) {
	if p.revision < p.last {
		s.Add(" AND o.revision <= ?", p.revision)
	}
	if p.from >= 0 {
		s.Add(" AND o.revision > ?", p.from)
	}
	if p.after != nil {
		b.order().after(b, s, p.after)
	}
	if p.parents != nil {
		p.parents.where(s)
	}
}

// differing appends a join with the objects that changed between the two moments of a query, if it has two.
func (p *past) differing(s *database.Statement, id string) {
	if p.from >= 0 {
		s.Add(" JOIN (SELECT object_id, MAX(committed_at) AS changed_at FROM changes WHERE revision > ? AND revision <= ? GROUP BY object_id) "+
			"d ON d.object_id = "+id,
			min(p.from, p.revision), max(p.from, p.revision))
	}
}

// changedAt is the column that differing joins.
func (p *past) changedAt() string {
	if p.from >= 0 {
		return ", d.changed_at"
	}
	return unknownChange
}

// unknownChange stands for changedAt where two moments do not count.
const unknownChange = ", 0"

// hasUnchanged reports whether objects that have not changed since can be among what a query asks for.
func (p *past) hasUnchanged() bool { return p.from < p.revision }

// unchangedObjects selects the first objects that have been as they are since the state, at most as many as are needed. Zero stands for
// all.
func (b *search) unchangedObjects(needed int64) *database.Statement {
	if needed == 0 {
		needed = math.MaxInt64
	}
	s := b.SQL("SELECT " + entryColumns + b.past.changedAt() + fromObjects)
	b.past.differing(s, "o.id")
	b.where(s)
	return b.order().orderBy(s).Add(" LIMIT ?", needed)
}

// unchanged returns the first objects that have been as they are since the state, and whether their size has left others out.
func unchanged(ctx context.Context, t *database.Tx, b *search, needed int64) (all []*entry, cut bool, err error) {
	if !b.past.hasUnchanged() {
		return nil, false, nil
	}
	size := int64(0)
	for _, part := range b.parts() {
		if needed > 0 && int64(len(all)) == needed {
			break
		}
		find := part.unchangedObjects(needed - int64(len(all)))
		if err := b.checkFilter(find); err != nil {
			return nil, false, err
		}
		err = t.Each(ctx, find, func(scan func(...any) error) error {
			if b.fills(size) {
				return errEnough
			}
			e, err := scanEntry(scan)
			size += int64(len(e.JSON))
			all = append(all, e)
			return cmp.Or(err, b.bounds.Keep(len(e.JSON)))
		})
		if errors.Is(err, errEnough) {
			return all, true, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return all, false, nil
}

func countUnchanged(ctx context.Context, t *database.Tx, b *search) (int64, error) {
	if !b.past.hasUnchanged() {
		return 0, nil
	}
	count := b.SQL("SELECT COUNT(*)" + fromObjects)
	b.past.differing(count, "o.id")
	b.where(count)
	return database.Value[int64](ctx, t, count)
}

// endedStates selects the states that were there at a revision and that have ended since.
func (p *past) endedStates(s *database.Statement) *database.Statement {
	s.Add("SELECT " + endedColumns + p.changedAt() + " FROM changes c JOIN versions v ON v.revision = c.previous JOIN kinds k ON k.id = " +
		"c.kind_id")
	p.differing(s, "c.object_id")
	s.Add(" WHERE c.revision > ? AND c.previous > 0 AND c.previous <= ?", p.revision, p.revision)
	switch {
	case p.from >= p.revision: // it has ended by then
		s.Add(" AND c.revision <= ?", p.from)
	case p.from >= 0: // it has begun since
		s.Add(" AND c.previous > ?", p.from)
	}
	return s
}

// endedObjects selects the states that have ended since and that a query may ask for, up to an object if it is not nil.
func (b *search) endedObjects(upTo *entry) *database.Statement {
	find := b.past.endedStates(b.SQL(""))
	database.OneOf(find.Add(" AND c.kind_id"), b.kinds)
	database.Choose(find, "c.cluster", b.q.Clusters)
	database.Choose(find, "c.namespace", b.q.Namespaces)
	database.Choose(find, "c.name", b.q.Names)
	b.within(find, "c")
	if b.past.after != nil && b.isDefault() {
		find.Add(" AND (c.kind_id, c.namespace, c.name) >= (?, ?, ?)", b.past.after.kindID, b.past.after.namespace, b.past.after.name)
	}
	if upTo != nil && b.isDefault() {
		find.Add(" AND (c.kind_id, c.namespace, c.name) <= (?, ?, ?)", upTo.kindID, upTo.namespace, upTo.name)
	}
	return find
}

// ended returns the first states that have ended since and that a query asks for, and how many there are in all. upTo bounds them where
// that helps: the page does not go beyond.
func ended(ctx context.Context, t *database.Tx, b *search, needed int64, upTo *entry) (all []*entry, total int64, err error) {
	p, in := b.past, b.order()
	if p.revision == p.last {
		return nil, 0, nil
	}
	find := b.endedObjects(upTo)
	if err := b.checkFilter(find); err != nil {
		return nil, 0, err
	}
	size, keptSize, asked := int64(0), int64(0), query.NewMatcher(b.q)
	err = t.Each(ctx, find, func(scan func(...any) error) error {
		e, err := scanEnded(scan)
		if err != nil || !b.allows(e) || !asked.Matches(e.subject()) {
			return err
		}
		if err := e.readText(); err != nil {
			return err
		}
		if p.parents != nil && !p.parents.own(e) || p.after != nil && in.compare(e, p.after) <= 0 {
			return nil
		}
		total++
		all, size = append(all, e), size+int64(len(e.JSON))
		if err := b.bounds.Keep(len(e.JSON)); err != nil {
			return err
		}
		if needed > 0 && int64(len(all)) >= 2*needed || b.fills(size) && size-keptSize >= b.bounds.Page/2 {
			all, size, err = b.first(all, needed)
			keptSize = size
		}
		return err
	})
	return all, total, err
}

// listPast lists the objects at a revision.
func listPast(ctx context.Context, t *database.Tx, b *search, page *Page, found func(Found) error) error {
	if err := begin(ctx, t, b); err != nil {
		return err
	}
	needed := int64(0)
	if b.q.Limit > 0 {
		needed = b.q.Offset + b.q.Limit + 1
	}
	all, cut, err := unchanged(ctx, t, b, needed)
	if err != nil {
		return err
	}
	var upTo *entry
	if (cut || needed > 0 && int64(len(all)) == needed) && !b.counts() {
		upTo = all[len(all)-1]
	}
	ended, total, err := ended(ctx, t, b, needed, upTo)
	if err != nil {
		return err
	}
	cut = cut || total > int64(len(ended))
	all = append(all, ended...)
	slices.SortFunc(all, b.order().compare)
	all = all[min(b.q.Offset, int64(len(all))):]
	n := b.pageOf(all)
	page.Full = (b.q.Limit == 0 || int64(n) < b.q.Limit) && (cut || n < len(all))
	page.More = cut || n < len(all)
	all = all[:n]
	for _, e := range all {
		if e.changedAt != 0 {
			e.JSON = objectjson.WithChangedAt(e.JSON, database.AsTime(e.changedAt))
		}
		if err := found(e.Found); err != nil {
			return err
		}
	}
	if page.More && b.counts() {
		unchanged, err := countUnchanged(ctx, t, b)
		if err != nil {
			return err
		}
		page.Remaining = max(unchanged+total-b.q.Offset-int64(len(all)), 0)
	}
	b.finish(page, all)
	return nil
}

// begin finds out where a page begins, and who owns what a query asks for.
func begin(ctx context.Context, t *database.Tx, b *search) (err error) {
	if b.q.After != nil {
		if b.past.after, err = entryAt(ctx, t, b, b.q.After.After); err != nil {
			return err
		}
	}
	b.past.parents, err = parentsOf(ctx, t, b)
	return err
}

// counts reports whether the objects that follow have to be counted.
func (b *search) counts() bool {
	return b.q.WithRemaining && !b.inOrder && (b.q.After == nil || b.q.After.Remaining == nil)
}

// finish returns what follows a page.
func (b *search) finish(page *Page, all []*entry) {
	if after := b.q.After; after != nil && after.Remaining != nil {
		page.Remaining = max(*after.Remaining-int64(len(all)), 0)
	} else if b.q.WithRemaining && !page.More {
		page.Remaining = 0
	}
	if page.More {
		page.Next = b.next(page, all[len(all)-1].ID)
	}
	if !b.q.WithRemaining {
		page.Remaining = -1
	}
}

// entryAt returns an object by its ID, as it was. It returns ErrPosition if the reader does not see it, or if it was not there.
func entryAt(ctx context.Context, t *database.Tx, b *search, id int64) (*entry, error) {
	find := t.SQL("SELECT "+entryColumns+unknownChange+fromObjects+" WHERE o.id = ? AND o.revision <= ?", id, b.past.revision)
	e, err := scanEntry(t.Row(ctx, find).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		find := b.past.endedStates(t.SQL("")).Add(" AND c.object_id = ?", id)
		if e, err = scanEnded(t.Row(ctx, find).Scan); err == nil {
			err = e.readText()
		}
	}
	if errors.Is(err, sql.ErrNoRows) || err == nil && (!b.allows(e) || !slices.Contains(b.kinds, e.kindID)) {
		return nil, ErrPosition
	}
	return e, err
}

// GetAt returns an object of a cluster as it was at a moment. One that the filter does not allow did not exist.
func (s *Store) GetAt(ctx context.Context, m *query.Moment, cluster string, resource schema.GroupVersionResource, namespace,
	name string) (f Found, err error) {
	err = s.db.Searching(ctx, func(t *database.Tx) error {
		if err := access.IsCurrent(ctx, t, s.filter, cluster); err != nil {
			return err
		}
		p := &past{from: -1}
		if p.revision, err = history.RevisionAt(ctx, t, m); err != nil {
			return err
		}
		b := &search{Dialect: t.Dialect, q: &query.Query{SameClusters: true}, filter: s.filter, past: p}
		if err := limitPast(ctx, t, b); err != nil {
			return err
		}
		if err := loadIncarnations(ctx, t, b, access.ClusterResource{Cluster: cluster, Resource: resource.GroupResource()}); err != nil {
			return err
		}
		if !b.objectSet(cluster, resource.GroupResource()).Has(namespace, name) {
			return ErrNotFound
		}
		find := p.endedStates(t.SQL("")).Add(" AND c.cluster = ? AND c.namespace = ? AND c.name = ? AND k.api_group = ? AND k.version = ? AND "+
			"k.resource = ?",
			cluster, namespace, name, resource.Group, resource.Version, resource.Resource)
		e, err := scanEnded(t.Row(ctx, find).Scan)
		if errors.Is(err, sql.ErrNoRows) { // it has not changed since
			find := t.SQL("SELECT "+entryColumns+unknownChange+fromObjects+`
WHERE c.name = ? AND o.namespace = ? AND o.name = ? AND k.api_group = ? AND k.version = ? AND k.resource = ? AND o.revision <= ?`,
				cluster, namespace, name, resource.Group, resource.Version, resource.Resource, p.revision)
			e, err = scanEntry(t.Row(ctx, find).Scan)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		f = e.Found
		return s.bounds.Keep(len(f.JSON))
	})
	return f, err
}
