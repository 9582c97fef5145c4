// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// Object is an object as a member has it.
type Object struct {
	Namespace, Name, UID string
	// ResourceVersion is the member's.
	ResourceVersion string
	// CreatedAt is in seconds since 1970.
	CreatedAt int64
	Labels    map[string]string
	// Owners are the UIDs of all owners.
	Owners []string
	// JSON is the whole object.
	JSON []byte
	// Involved is what an event is about that belongs to the stream InvolvedEvents.
	Involved *Involved
}

// check returns why no database can store an object.
func (o *Object) check() error {
	if !utf8.ValidString(o.Namespace+o.Name) || strings.ContainsRune(o.Namespace+o.Name, 0) {
		return fmt.Errorf("%w: its name is no text", errNoObject)
	}
	return nil
}

// Change is an object that was seen, or one that is gone, of which only the name counts.
type Change struct {
	Object
	Deleted bool
}

func (c *Change) key() [2]string { return [2]string{c.Namespace, c.Name} }

// Batch is what a stream commits at once.
type Batch struct {
	// Changes are in the order of the member. Of several changes of an object, the last one counts.
	Changes []Change
	// ResourceVersion is where a watch may go on after these changes. It stays as it was if empty.
	ResourceVersion string
	// Listing marks the objects as part of a list, for Sweep. It is zero outside of lists.
	Listing int64
	// Heard is when the member said the last of this. For a part of a list, that is when the list was asked for. Zero means now.
	Heard time.Time
	// Room says which changes are taken. Stream.LeftOut counts the others.
	Room Room
	// Incomplete says that earlier changes were left out, or may come: what the database has is not as new as Heard.
	Incomplete bool
	// Relist makes the next writer of the stream list.
	Relist bool
}

// heard returns up to when the database has everything once a batch is in it. That is unknown while a list goes on, and if changes were left out.
func (s *Stream) heard(b Batch) time.Time {
	if b.Heard.IsZero() {
		b.Heard = time.Now()
	}
	if b.Listing == 0 && !b.Incomplete {
		return b.Heard
	}
	if b.Listing != 0 && s.listing != b.Listing {
		s.listing, s.listingSince = b.Listing, b.Heard
	}
	return time.Time{}
}

// Write commits a batch. It returns ErrFenced if another replica has opened the stream since. IsRefused tells whether the database has refused an
// object of the batch.
func (s *Store) Write(ctx context.Context, stream *Stream, b Batch) error {
	changes, heard := lastChanges(b.Changes), stream.heard(b)
	return s.within(ctx, func(t *transaction) error {
		w := &writer{transaction: t, stream: stream, listing: b.Listing}
		if stream.events {
			if err := t.hold(ctx, stream, heard); err != nil {
				return err
			}
			if err := t.putEvents(ctx, stream, changes); err != nil {
				return err
			}
			return t.advance(ctx, stream, b.ResourceVersion, 0)
		}
		// First the counter, and then the stream: all writers lock in this order.
		var err error
		if len(changes) > 0 {
			if w.next, err = t.revisions(ctx, len(changes)); err != nil {
				return err
			}
		}
		if err := t.hold(ctx, stream, heard); err != nil {
			return err
		}
		if err := w.write(ctx, changes, b.Room); err != nil {
			return err
		}
		stream.LeftOut = w.leftOut
		if b.Relist {
			if err := t.all(ctx, t.sql("UPDATE streams SET resource_version = '' WHERE id = ?", stream.id)); err != nil {
				return err
			}
		}
		return t.advance(ctx, stream, b.ResourceVersion, w.added)
	})
}

// lastChanges returns the last change of each object.
func lastChanges(changes []Change) []Change {
	last := make(map[[2]string]int, len(changes))
	for i := range changes {
		last[changes[i].key()] = i
	}
	if len(last) == len(changes) {
		return changes
	}
	kept := make([]Change, 0, len(last))
	for i := range changes {
		if last[changes[i].key()] == i {
			kept = append(kept, changes[i])
		}
	}
	return kept
}

// Sweep ends a list: it removes the objects that the list did not have, and notes where the list was.
func (s *Store) Sweep(ctx context.Context, stream *Stream, listing int64, resourceVersion string) error {
	heard := stream.listingSince
	if stream.listing != listing { // an empty list
		heard = time.Now()
	}
	return s.endList(ctx, stream, listing, func(t *transaction) error {
		if !heard.IsZero() {
			if err := t.hold(ctx, stream, heard); err != nil {
				return err
			}
		}
		if _, err := t.exec(ctx, t.sql("UPDATE streams SET listed = ? WHERE id = ?", true, stream.id)); err != nil {
			return err
		}
		return t.advance(ctx, stream, resourceVersion, 0)
	})
}

// RemoveUnlisted removes the objects that a list did not have. The list does not count as complete, because some of its objects were left out.
func (s *Store) RemoveUnlisted(ctx context.Context, stream *Stream, listing int64) error {
	return s.endList(ctx, stream, listing, func(*transaction) error { return nil })
}

// endList removes the objects that a list did not have, some at a time, and then does more. If it fails, it may be called again.
func (s *Store) endList(ctx context.Context, stream *Stream, listing int64, last func(t *transaction) error) error {
	then := func(t *transaction, done bool) error {
		if !done {
			return nil
		}
		if err := t.swept(ctx, stream, listing); err != nil {
			return err
		}
		return last(t)
	}
	const gone = " AND listing <> ?"
	if stream.namespaces {
		if err := s.remove(ctx, stream, func(*transaction, bool) error { return nil }, gone, listing); err != nil {
			return err
		}
		if err := s.forgetNamespaces(ctx, stream); err != nil {
			return err
		}
	}
	return s.remove(ctx, stream, then, gone, listing)
}

// swept notes what the end of a list changes besides objects.
func (t *transaction) swept(ctx context.Context, stream *Stream, listing int64) error {
	switch {
	case stream.namespaces:
		return t.openRights(ctx, stream)
	case !stream.rights:
		return nil
	}
	err := t.forgetUnreadable(ctx, stream, listing)
	if err == nil {
		err = t.openRights(ctx, stream)
	}
	if err == nil && !stream.Listed { // the rights of a cluster count from its first list on
		err = t.changeRightsOf(ctx, stream)
	}
	return err
}

// writer writes one batch.
type writer struct {
	*transaction
	stream  *Stream
	listing int64
	// next is the next revision.
	next int64
	// added is how many objects the stream has more afterwards, and leftOut how many changes were left out.
	added, leftOut int
	// namespaces are rows of the table of that name.
	namespaces [][]any
}

// stored is an object that the database has.
type stored struct {
	id, revision         int64
	uid, resourceVersion string
}

func (w *writer) write(ctx context.Context, changes []Change, room Room) error {
	known, err := w.known(ctx, changes)
	if err != nil {
		return err
	}
	if w.stream.rights {
		if err := w.writeRights(ctx, changes, known); err != nil {
			return err
		}
	}
	var deleted, unchanged, replaced []int64
	var rows []row
	var records []record
	for i := range changes {
		c := &changes[i]
		old, exists := known[c.key()]
		entry := record{revision: w.next, id: old.id, previous: old.revision, namespace: c.Namespace, name: c.Name}
		same := exists && !c.Deleted && old.uid == c.UID && old.resourceVersion == c.ResourceVersion
		leave := !c.Deleted && !same && (room == RoomForNothing || room == RoomForKnown && !exists)
		if leave {
			w.leftOut++
		}
		w.noteNamespace(c, leave)
		switch {
		case (c.Deleted || leave) && exists:
			deleted = append(deleted, old.id)
			w.added--
			entry.deleted = true
			records = append(records, entry)
		case c.Deleted || leave:
		case same:
			unchanged = append(unchanged, old.id)
		default:
			if !exists {
				entry.id = w.next
				w.added++
			} else {
				replaced = append(replaced, old.id)
			}
			rows = append(rows, row{object: &c.Object, id: entry.id, revision: w.next})
			records = append(records, entry)
		}
		w.next++
	}
	return inTurn(
		func() error { return w.keep(ctx, append(replaced, deleted...)) },
		func() error { return w.deleteObjects(ctx, deleted) },
		func() error { return w.deleteReferences(ctx, replaced) },
		func() error { return w.mark(ctx, unchanged) },
		func() error { return w.put(ctx, rows) },
		func() error { return w.record(ctx, w.stream, records) },
		func() error { return w.writeNamespaces(ctx) },
	)
}

// inTurn runs functions until one fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// known returns what the database has of the objects of changes.
func (w *writer) known(ctx context.Context, changes []Change) (map[[2]string]stored, error) {
	known := map[[2]string]stored{}
	for part := range slices.Chunk(changes, rowsAtOnce) {
		keys := make([][2]string, 0, len(part))
		for i := range part {
			keys = append(keys, part[i].key())
		}
		err := w.each(ctx, w.findByKeys(keys), func(scan func(...any) error) error {
			var key [2]string
			var has stored
			err := scan(&key[0], &key[1], &has.id, &has.revision, &has.uid, &has.resourceVersion)
			known[key] = has
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}

// findByKeys selects objects of the stream by their namespaces and names. For PostgreSQL, the text is the same for any number of keys, and each of them is
// looked for in the index, whatever the database believes of the size of the table.
func (w *writer) findByKeys(keys [][2]string) *statement {
	columns := "o.namespace, o.name, o.id, o.revision, o.uid, o.resource_version FROM "
	if w.dialect != postgres {
		return pairs(w.sql("SELECT "+columns+"objects o WHERE o.kind_id = ? AND o.cluster_id = ? AND (o.namespace, o.name) IN ", w.stream.kindID, w.stream.clusterID), keys)
	}
	namespaces, names := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		namespaces[i], names[i] = key[0], key[1]
	}
	return w.sql("SELECT "+columns+"unnest(CAST(? AS text[]), CAST(? AS text[])) k(namespace, name), LATERAL"+
		" (SELECT * FROM objects WHERE kind_id = ? AND cluster_id = ? AND namespace = k.namespace AND name = k.name LIMIT 1) o",
		namespaces, names, w.stream.kindID, w.stream.clusterID)
}

// mark notes that a list has objects that did not change.
func (w *writer) mark(ctx context.Context, ids []int64) error {
	if w.listing == 0 {
		return nil
	}
	return w.forIDs(ctx, ids, func(ids []int64) *statement {
		return anyOf(w.sql("UPDATE objects SET listing = ? WHERE id", w.listing), ids)
	})
}

func (t *transaction) deleteObjects(ctx context.Context, ids []int64) error {
	if err := t.deleteReferences(ctx, ids); err != nil {
		return err
	}
	return t.forIDs(ctx, ids, func(ids []int64) *statement { return anyOf(t.sql("DELETE FROM objects WHERE id"), ids) })
}

// deleteReferences deletes the owners and labels of objects.
func (t *transaction) deleteReferences(ctx context.Context, ids []int64) error {
	err := t.forIDs(ctx, ids, func(ids []int64) *statement { return anyOf(t.sql("DELETE FROM owners WHERE object_id"), ids) })
	if err != nil || t.dialect == postgres {
		return err
	}
	return t.forIDs(ctx, ids, func(ids []int64) *statement { return anyOf(t.sql("DELETE FROM labels WHERE object_id"), ids) })
}

func (t *transaction) forIDs(ctx context.Context, ids []int64, make func([]int64) *statement) error {
	for part := range slices.Chunk(ids, rowsAtOnce) {
		if _, err := t.exec(ctx, make(part)); err != nil {
			return err
		}
	}
	return nil
}

// rowsAtOnce bounds the rows of a statement. SQLite takes 32,766 values.
const rowsAtOnce = 1000

// row is an object to write.
type row struct {
	object       *Object
	id, revision int64
}

// put inserts and replaces objects, and inserts their owners and labels.
func (w *writer) put(ctx context.Context, rows []row) error {
	var objects, originals, owners, labels [][]any
	for _, r := range rows {
		o := r.object
		text := WithRevision(o.JSON, r.revision)
		form, differs, err := formOf(text)
		if err == nil {
			err = o.check()
		}
		if err != nil {
			return err
		}
		if differs {
			originals = append(originals, []any{r.revision, text})
		}
		values := []any{r.id, w.stream.kindID, w.stream.clusterID, o.Namespace, o.Name, o.UID, o.ResourceVersion, o.CreatedAt, r.revision, w.listing, document(form)}
		if w.dialect == postgres {
			asJSON, err := json.Marshal(speakableLabels(o.Labels))
			if err != nil {
				return err
			}
			values = append(values, document(asJSON))
		} else {
			for _, label := range slices.Sorted(maps.Keys(o.Labels)) {
				labels = append(labels, []any{label, o.Labels[label], w.stream.kindID, r.id})
			}
		}
		objects = append(objects, values)
		for _, uid := range slices.Compact(slices.Sorted(slices.Values(o.Owners))) {
			owners = append(owners, []any{uid, w.stream.clusterID, r.id})
		}
	}
	columns := []string{"id", "kind_id", "cluster_id", "namespace", "name", "uid", "resource_version", "created_at", "revision", "listing", "object"}
	if w.dialect == postgres {
		columns = append(columns, "labels")
	}
	if err := w.insert(ctx, "objects", columns, objects, w.replace(columns[5:])); err != nil {
		return err
	}
	if err := w.insert(ctx, "owners", []string{"owner_uid", "cluster_id", "object_id"}, owners, ""); err != nil {
		return err
	}
	if err := w.insert(ctx, "originals", []string{"revision", "object"}, originals, ""); err != nil {
		return err
	}
	return w.insert(ctx, "labels", []string{"label", "value", "kind_id", "object_id"}, labels, "")
}

// speakableLabels returns labels that PostgreSQL takes as JSON.
func speakableLabels(labels map[string]string) map[string]string {
	texts := make(map[string]string, len(labels))
	for name, value := range labels {
		texts[query.Speakable(name)] = query.Speakable(value)
	}
	return texts
}

// replace returns the end of an INSERT that sets columns of a row that exists.
func (d dialect) replace(columns []string) string {
	var sets []string
	for _, column := range columns {
		if d == mysqlFamily {
			sets = append(sets, column+" = VALUES("+column+")")
		} else {
			sets = append(sets, column+" = excluded."+column)
		}
	}
	return d.onConflict("id") + strings.Join(sets, ", ")
}

func (t *transaction) insert(ctx context.Context, table string, columns []string, rows [][]any, end string) error {
	for part := range slices.Chunk(rows, rowsAtOnce) {
		s := t.sql("INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") ")
		rowsOf(s, part)
		if _, err := t.exec(ctx, s.add(end)); err != nil {
			return err
		}
	}
	return nil
}
