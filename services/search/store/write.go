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
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
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
	// Involved is what an event is about that belongs to the stream streams.InvolvedEvents.
	Involved *Involved
}

// check returns why no database can store an object.
func (o *Object) check() error {
	if !utf8.ValidString(o.Namespace+o.Name) || strings.ContainsRune(o.Namespace+o.Name, 0) {
		return fmt.Errorf("%w: its name is no text", objectjson.ErrNoObject)
	}
	return nil
}

// Change is the new state of an object, or its deletion. Of a deletion, only the name is set.
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
	// SyncedAt is when the last of this came from the member. For a part of a list, that is when the list was asked for. Zero means now.
	SyncedAt time.Time
	// Room says which changes are taken. Stream.LeftOut counts the others.
	Room Room
	// Incomplete says that earlier changes were left out, or may come: what the database has is not as new as SyncedAt.
	Incomplete bool
	// Relist makes the next writer of the stream list.
	Relist bool
}

// syncedAt returns up to when the database has everything once a batch is in it. That is unknown while a list goes on, and if changes were
// left out.
func (b *Batch) syncedAt(stream *streams.Stream) time.Time {
	at := b.SyncedAt
	if at.IsZero() {
		at = time.Now()
	}
	if b.Listing == 0 && !b.Incomplete {
		return at
	}
	if b.Listing != 0 {
		stream.BeginList(b.Listing, at)
	}
	return time.Time{}
}

// Write commits a batch. It returns streams.ErrFenced if another replica has opened the stream since. IsRefused reports whether the
// database has refused an object of the batch.
func (s *Store) Write(ctx context.Context, stream *streams.Stream, b Batch) error {
	changes, syncedAt := lastChanges(b.Changes), b.syncedAt(stream)
	return s.db.Within(ctx, func(t *database.Tx) error {
		w := &writer{Tx: t, stream: stream, listing: b.Listing}
		if stream.Events {
			if err := streams.Hold(ctx, t, stream, syncedAt); err != nil {
				return err
			}
			if err := putEvents(ctx, t, stream, changes); err != nil {
				return err
			}
			return streams.Advance(ctx, t, stream, b.ResourceVersion, 0)
		}
		// First the counter, and then the stream: all writers lock in this order.
		var err error
		if len(changes) > 0 {
			if w.next, err = t.Revisions(ctx, len(changes)); err != nil {
				return err
			}
		}
		if err := streams.Hold(ctx, t, stream, syncedAt); err != nil {
			return err
		}
		if err := w.write(ctx, changes, b.Room); err != nil {
			return err
		}
		stream.LeftOut = w.leftOut
		if b.Relist {
			if err := t.All(ctx, t.SQL("UPDATE streams SET resource_version = '' WHERE id = ?", stream.ID)); err != nil {
				return err
			}
		}
		return streams.Advance(ctx, t, stream, b.ResourceVersion, w.added)
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
func (s *Store) Sweep(ctx context.Context, stream *streams.Stream, listing int64, resourceVersion string) error {
	syncedAt, begun := stream.ListAskedAt(listing)
	if !begun { // an empty list
		syncedAt = time.Now()
	}
	return s.endList(ctx, stream, listing, func(t *database.Tx) error {
		if !syncedAt.IsZero() {
			if err := streams.Hold(ctx, t, stream, syncedAt); err != nil {
				return err
			}
		}
		if _, err := t.Exec(ctx, t.SQL("UPDATE streams SET listed = ? WHERE id = ?", true, stream.ID)); err != nil {
			return err
		}
		return streams.Advance(ctx, t, stream, resourceVersion, 0)
	})
}

// RemoveUnlisted removes the objects that a list did not have. The list does not count as complete, because some of its objects were left
// out.
func (s *Store) RemoveUnlisted(ctx context.Context, stream *streams.Stream, listing int64) error {
	return s.endList(ctx, stream, listing, func(*database.Tx) error { return nil })
}

// endList removes the objects that a list did not have, some at a time, and then does more. If it fails, it may be called again.
func (s *Store) endList(ctx context.Context, stream *streams.Stream, listing int64, last func(t *database.Tx) error) error {
	then := func(t *database.Tx, done bool) error {
		if !done {
			return nil
		}
		if err := swept(ctx, t, stream, listing); err != nil {
			return err
		}
		return last(t)
	}
	const gone = " AND listing <> ?"
	if stream.Namespaces {
		if err := s.remove(ctx, stream, func(*database.Tx, bool) error { return nil }, gone, listing); err != nil {
			return err
		}
		if err := history.ForgetNamespaces(ctx, s.db, stream); err != nil {
			return err
		}
	}
	return s.remove(ctx, stream, then, gone, listing)
}

// swept notes what the end of a list changes besides objects.
func swept(ctx context.Context, t *database.Tx, stream *streams.Stream, listing int64) error {
	switch {
	case stream.Namespaces:
		return access.OpenRights(ctx, t, stream)
	case !stream.RBAC:
		return nil
	}
	err := access.ForgetUnreadable(ctx, t, stream, listing)
	if err == nil {
		err = access.OpenRights(ctx, t, stream)
	}
	if err == nil && !stream.Listed { // the rights of a cluster count from its first list on
		err = access.ChangeRightsOf(ctx, t, stream)
	}
	return err
}

// writer writes one batch.
type writer struct {
	*database.Tx
	stream  *streams.Stream
	listing int64
	// next is the next revision.
	next int64
	// added is how many objects the stream has more afterwards, and leftOut how many changes were left out.
	added, leftOut int
	// namespaces are rows of the table of that name.
	namespaces []history.Namespace
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
	if w.stream.RBAC {
		if err := access.NoteChanges(ctx, w.Tx, w.stream, w.listing, changesOfRights(changes, known)); err != nil {
			return err
		}
	}
	var deleted, unchanged, replaced []int64
	var rows []row
	var records []history.Record
	for i := range changes {
		c := &changes[i]
		old, exists := known[c.key()]
		entry := history.Record{Revision: w.next, ID: old.id, Previous: old.revision, Namespace: c.Namespace, Name: c.Name}
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
			entry.Deleted = true
			records = append(records, entry)
		case c.Deleted || leave:
		case same:
			unchanged = append(unchanged, old.id)
		default:
			if !exists {
				entry.ID = w.next
				w.added++
			} else {
				replaced = append(replaced, old.id)
			}
			rows = append(rows, row{object: &c.Object, id: entry.ID, revision: w.next})
			records = append(records, entry)
		}
		w.next++
	}
	return database.Sequence(
		func() error { return history.KeepStates(ctx, w.Tx, append(replaced, deleted...)) },
		func() error { return deleteObjects(ctx, w.Tx, deleted) },
		func() error { return deleteReferences(ctx, w.Tx, replaced) },
		func() error { return w.mark(ctx, unchanged) },
		func() error { return w.put(ctx, rows) },
		func() error { return history.AddChanges(ctx, w.Tx, w.stream, records) },
		func() error { return history.WriteNamespaces(ctx, w.Tx, w.stream, w.namespaces) },
	)
}

// noteNamespace notes that a Namespace has a UID, or that it is gone or not known any more.
func (w *writer) noteNamespace(c *Change, leftOut bool) {
	if !w.stream.Namespaces {
		return
	}
	uid := c.UID
	if c.Deleted || leftOut {
		uid = ""
	}
	w.namespaces = append(w.namespaces, history.Namespace{Name: c.Name, UID: uid, Since: w.next})
}

// changesOfRights returns what changes of RBAC objects do to those that the database has.
func changesOfRights(changes []Change, known map[[2]string]stored) []access.Change {
	all := make([]access.Change, len(changes))
	for i := range changes {
		c := &changes[i]
		all[i] = access.Change{Namespace: c.Namespace, Name: c.Name, JSON: c.JSON, Deleted: c.Deleted}
		if old, exists := known[c.key()]; exists {
			all[i].Former, all[i].Same = old.id, old.uid == c.UID && old.resourceVersion == c.ResourceVersion
		}
	}
	return all
}

// known returns what the database has of the objects of changes.
func (w *writer) known(ctx context.Context, changes []Change) (map[[2]string]stored, error) {
	known := map[[2]string]stored{}
	for part := range slices.Chunk(changes, database.RowsAtOnce) {
		keys := make([][2]string, 0, len(part))
		for i := range part {
			keys = append(keys, part[i].key())
		}
		err := w.Each(ctx, w.FindObjects("o.namespace, o.name, o.id, o.revision, o.uid, o.resource_version", w.stream.KindID, w.stream.ClusterID,
			keys), func(scan func(...any) error) error {
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

// mark notes that a list has objects that did not change.
func (w *writer) mark(ctx context.Context, ids []int64) error {
	if w.listing == 0 {
		return nil
	}
	return w.ForIDs(ctx, ids, func(ids []int64) *database.Statement {
		return database.AnyOf(w.SQL("UPDATE objects SET listing = ? WHERE id", w.listing), ids)
	})
}

func deleteObjects(ctx context.Context, t *database.Tx, ids []int64) error {
	if err := deleteReferences(ctx, t, ids); err != nil {
		return err
	}
	return t.ForIDs(ctx, ids, func(ids []int64) *database.Statement {
		return database.AnyOf(t.SQL("DELETE FROM objects WHERE id"), ids)
	})
}

// deleteReferences deletes the owners and labels of objects.
func deleteReferences(ctx context.Context, t *database.Tx, ids []int64) error {
	err := t.ForIDs(ctx, ids, func(ids []int64) *database.Statement {
		return database.AnyOf(t.SQL("DELETE FROM owners WHERE object_id"), ids)
	})
	if err != nil || t.LabelsAreColumn() {
		return err
	}
	return t.ForIDs(ctx, ids, func(ids []int64) *database.Statement {
		return database.AnyOf(t.SQL("DELETE FROM labels WHERE object_id"), ids)
	})
}

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
		text := objectjson.WithRevision(o.JSON, r.revision)
		form, differs, err := objectjson.Normalize(text)
		if err == nil {
			err = o.check()
		}
		if err != nil {
			return err
		}
		if differs {
			originals = append(originals, []any{r.revision, text})
		}
		values := []any{r.id, w.stream.KindID, w.stream.ClusterID, o.Namespace, o.Name, o.UID, o.ResourceVersion, o.CreatedAt, r.revision,
			w.listing, database.Document(form)}
		if w.LabelsAreColumn() {
			asJSON, err := json.Marshal(speakableLabels(o.Labels))
			if err != nil {
				return err
			}
			values = append(values, database.Document(asJSON))
		} else {
			for _, label := range slices.Sorted(maps.Keys(o.Labels)) {
				labels = append(labels, []any{label, o.Labels[label], w.stream.KindID, r.id})
			}
		}
		objects = append(objects, values)
		for _, uid := range slices.Compact(slices.Sorted(slices.Values(o.Owners))) {
			owners = append(owners, []any{uid, w.stream.ClusterID, r.id})
		}
	}
	columns := []string{"id", "kind_id", "cluster_id", "namespace", "name", "uid", "resource_version", "created_at", "revision", "listing",
		"object"}
	if w.LabelsAreColumn() {
		columns = append(columns, "labels")
	}
	if err := w.Insert(ctx, "objects", columns, objects, replace(w.Tx, columns[5:])); err != nil {
		return err
	}
	if err := w.Insert(ctx, "owners", []string{"owner_uid", "cluster_id", "object_id"}, owners, ""); err != nil {
		return err
	}
	if err := w.Insert(ctx, "originals", []string{"revision", "object"}, originals, ""); err != nil {
		return err
	}
	return w.Insert(ctx, "labels", []string{"label", "value", "kind_id", "object_id"}, labels, "")
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
func replace(t *database.Tx, columns []string) string {
	sets := make([]string, 0, len(columns))
	for _, column := range columns {
		sets = append(sets, column+" = "+t.Inserted(column))
	}
	return t.OnConflict("id") + strings.Join(sets, ", ")
}
