// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrFenced says that another replica has opened the stream since, so this one must stop writing.
var ErrFenced = errors.New("another replica has taken over the stream")

// Stream is a resource of a cluster, as one writer fills it.
type Stream struct {
	id, clusterID, kindID int64
	cluster               string
	epoch                 int64
	// events is set for the stream InvolvedEvents.
	events bool
	// rights is set for streams of RBAC objects, and namespaces for that of Namespaces.
	rights, namespaces bool
	resource           string
	// listing is the list that is written now, and listingSince when it was asked for.
	listing      int64
	listingSince time.Time
	// renewing is set while the stream is opened whose objects have another form.
	renewing *renewal

	// ResourceVersion is where the database was when the stream was opened: that of the last change, or empty.
	ResourceVersion string
	// Listed reports whether the database once had the complete list.
	Listed bool
	// LeftOut is how many changes of the last batch had no room.
	LeftOut int
}

// OpenStream returns a stream for its next writer. Writers that opened it before are refused from now on.
func (s *Store) OpenStream(ctx context.Context, cluster string, kind Kind) (*Stream, error) {
	details, err := json.Marshal(kind.Details)
	if err != nil {
		return nil, err
	}
	stream := &Stream{
		cluster: cluster, resource: kind.Resource, events: kind.GroupVersionResource == InvolvedEvents.GroupVersionResource, rights: isRBAC(kind.GroupVersionResource),
		namespaces: kind.GroupVersionResource == namespacesResource,
	}
	for opened := false; !opened; {
		if err = s.inTurn(ctx, func(t *transaction) (rows int, err error) {
			rows, opened, err = t.open(ctx, stream, kind, string(details))
			return rows, err
		}); err != nil {
			return nil, fmt.Errorf("open the stream of %s in cluster %s: %w", kind.GroupResource(), cluster, err)
		}
	}
	return stream, nil
}

// open opens a stream, or does a part of what has to be done before. It returns how many rows have changed.
func (t *transaction) open(ctx context.Context, stream *Stream, kind Kind, details string) (rows int, opened bool, err error) {
	if stream.clusterID, err = t.clusterID(ctx, stream.cluster); err != nil {
		return 0, false, err
	}
	if stream.kindID, err = t.kindID(ctx, kind); err == nil {
		err = t.holdKind(ctx, stream.kindID)
	}
	if err != nil {
		return 0, false, err
	}
	stream.id, err = t.ensure(ctx,
		t.sql("SELECT id FROM streams WHERE cluster_id = ? AND kind_id = ?", stream.clusterID, stream.kindID),
		t.sql("INSERT INTO streams (cluster_id, kind_id, kind, namespaced, epoch, counted, form, resource_version, listed, heard_at, opened_at, details)"+
			" VALUES (?, ?, ?, ?, 0, 0, 0, '', ?, 0, 0, '{}')", stream.clusterID, stream.kindID, kind.Name, kind.Namespaced, false))
	if err != nil {
		return 0, false, err
	}
	if rows, more, err := t.renewForm(ctx, stream, kind); err != nil || more {
		return rows, false, err
	}
	set := ", form = epoch + 1, kind = ?, namespaced = ?, details = ?, opened_at = ?"
	if err := t.raiseEpoch(ctx, stream, set, kind.Name, kind.Namespaced, details, time.Now().UnixMilli()); err != nil {
		return 0, false, err
	}
	if err := t.counts(ctx, stream); err != nil {
		return 0, false, err
	}
	row := t.sql("SELECT epoch, resource_version, listed FROM streams WHERE id = ?", stream.id)
	return 0, true, t.tx.QueryRowContext(ctx, row.text.String(), row.args...).Scan(&stream.epoch, &stream.ResourceVersion, &stream.Listed)
}

// raiseEpoch refuses former writers of a stream, and sets more.
func (t *transaction) raiseEpoch(ctx context.Context, stream *Stream, set string, values ...any) error {
	// MySQL takes the epoch that counted is compared with from before its assignment, like the others, because that comes later.
	raise := t.sql("UPDATE streams SET counted = CASE WHEN counted = epoch THEN counted + 1 ELSE 0 END").add(set, values...)
	_, err := t.exec(ctx, raise.add(", epoch = epoch + 1 WHERE id = ?", stream.id))
	return err
}

func (t *transaction) clusterID(ctx context.Context, name string) (int64, error) {
	return t.ensure(ctx, t.sql("SELECT id FROM clusters WHERE name = ?", name), t.sql("INSERT INTO clusters (name, since) VALUES (?, ("+lastRevision+"))", name))
}

func (t *transaction) kindID(ctx context.Context, k Kind) (int64, error) {
	find := t.sql("SELECT id FROM kinds WHERE api_group = ? AND version = ? AND resource = ?", k.Group, k.Version, k.Resource)
	if t.dialect != sqlite {
		return t.ensure(ctx, find,
			t.sql("INSERT INTO kinds (api_group, version, resource, kind, namespaced) VALUES (?, ?, ?, ?, ?)", k.Group, k.Version, k.Resource, k.Name, k.Namespaced))
	}
	id, err := value[int64](ctx, t, find)
	if !isNone(err) {
		return id, err
	}
	// SQLite would give the ID of a kind that was forgotten to another one. Those that may be forgotten are lower than the last revision.
	_, err = t.exec(ctx, t.sql("INSERT INTO kinds (id, api_group, version, resource, kind, namespaced)"+
		" VALUES (1 + MAX(("+lastRevision+"), (SELECT COALESCE(MAX(id), 0) FROM kinds)), ?, ?, ?, ?, ?)", k.Group, k.Version, k.Resource, k.Name, k.Namespaced))
	if err != nil {
		return 0, err
	}
	return value[int64](ctx, t, find)
}

// renewForm makes the next writer of a stream list and write all objects again, if what the database has is not as this writer writes it: the kind had
// another name or scope, or a version of search before schema 10 has written. Such a version does not raise form with the epoch. It does a part of that, and
// reports whether there is more.
func (t *transaction) renewForm(ctx context.Context, stream *Stream, kind Kind) (rows int, more bool, err error) {
	same := t.sql("SELECT COUNT(*) FROM streams WHERE id = ? AND form = epoch AND kind = ? AND namespaced = ?", stream.id, kind.Name, kind.Namespaced)
	if n, err := value[int](ctx, t, same); err != nil || n > 0 {
		return 0, false, err
	}
	var epoch, form int64
	row := t.sql("SELECT epoch, form FROM streams WHERE id = ?", stream.id)
	if err := t.tx.QueryRowContext(ctx, row.text.String(), row.args...).Scan(&epoch, &form); err != nil {
		return 0, false, err
	}
	if form != -epoch-1 { // a writer may have the stream
		stream.renewing = nil
		return 0, true, t.raiseEpoch(ctx, stream, ", form = -epoch - 2, resource_version = ''")
	}
	if stream.renewing == nil || stream.renewing.epoch != epoch {
		stream.renewing = &renewal{epoch: epoch}
	}
	at := stream.renewing
	var ids []int64
	find := t.sql("SELECT id, namespace, name FROM objects WHERE kind_id = ? AND cluster_id = ? AND (namespace > ? OR namespace = ? AND name > ?) ORDER BY namespace, name LIMIT ?",
		stream.kindID, stream.clusterID, at.namespace, at.namespace, at.name, removedAtOnce)
	err = t.each(ctx, find, func(scan func(...any) error) error {
		var id int64
		err := scan(&id, &at.namespace, &at.name)
		ids = append(ids, id)
		return err
	})
	if err == nil {
		err = t.forIDs(ctx, ids, func(ids []int64) *statement {
			return anyOf(t.sql("UPDATE objects SET resource_version = '' WHERE id"), ids)
		})
	}
	return len(ids), len(ids) == removedAtOnce, err
}

// renewal is how far the objects of a stream have been made to be written again.
type renewal struct {
	// epoch is one that no writer has.
	epoch           int64
	namespace, name string
}

// Describe sets what clients and tables show about the kind of a stream. It returns ErrFenced if another replica has opened the stream since.
func (s *Store) Describe(ctx context.Context, stream *Stream, details Details) error {
	text, err := json.Marshal(details)
	if err != nil {
		return err
	}
	return s.within(ctx, func(t *transaction) error {
		held, err := t.exec(ctx, t.sql("UPDATE streams SET details = ? WHERE id = ? AND epoch = ?", string(text), stream.id, stream.epoch))
		if err == nil && held == 0 {
			err = ErrFenced
		}
		return err
	})
}

// hold refuses writers of earlier epochs, and keeps later ones out until the transaction ends. heard is up to when the database has everything after the
// transaction. It is zero if that is not known: then the writer only gives a sign of life.
func (t *transaction) hold(ctx context.Context, stream *Stream, heard time.Time) error {
	set := t.sql("UPDATE streams SET heard_at = ?", heard.UnixMilli())
	if heard.IsZero() {
		set = t.sql("UPDATE streams SET opened_at = ?", time.Now().UnixMilli())
	}
	held, err := t.exec(ctx, set.add(" WHERE id = ? AND epoch = ?", stream.id, stream.epoch))
	if err == nil && held == 0 {
		err = ErrFenced
	}
	return err
}

// revisions returns the first of n revisions. Until the transaction commits, no other transaction gets any.
func (t *transaction) revisions(ctx context.Context, n int) (first int64, err error) {
	if _, err := t.exec(ctx, t.sql("UPDATE revisions SET last = last + ? WHERE id = 1", n)); err != nil {
		return 0, err
	}
	last, err := value[int64](ctx, t, t.sql("SELECT last FROM revisions WHERE id = 1"))
	return last - int64(n) + 1, err
}

func (t *transaction) all(ctx context.Context, statements ...*statement) error {
	for _, statement := range statements {
		if _, err := t.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
