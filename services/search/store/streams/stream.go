// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// ErrFenced says that another replica has opened the stream since, so this one must stop writing.
var ErrFenced = errors.New("another replica has taken over the stream")

// Stream is a resource of a cluster, as one writer fills it.
type Stream struct {
	// ID, ClusterID and KindID are those of rows.
	ID, ClusterID, KindID int64
	Cluster, Resource     string
	// Epoch is higher for each writer. It is zero for a stream that another replica than its writer removes.
	Epoch int64
	// Events is set for the stream InvolvedEvents, RBAC for streams of RBAC objects, and Namespaces for that of Namespaces.
	Events, RBAC, Namespaces bool
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
func (s *Registry) OpenStream(ctx context.Context, cluster string, kind Kind) (*Stream, error) {
	details, err := json.Marshal(kind.Details)
	if err != nil {
		return nil, err
	}
	stream := &Stream{
		Cluster: cluster, Resource: kind.Resource, Events: kind.GroupVersionResource == InvolvedEvents.GroupVersionResource,
		RBAC:       IsRBAC(kind.GroupVersionResource),
		Namespaces: kind.GroupVersionResource == NamespacesResource,
	}
	for opened := false; !opened; {
		if err = s.db.WithinThrottled(ctx, func(t *database.Tx) (rows int, err error) {
			rows, opened, err = open(ctx, t, stream, kind, string(details))
			return rows, err
		}); err != nil {
			return nil, fmt.Errorf("open the stream of %s in cluster %s: %w", kind.GroupResource(), cluster, err)
		}
	}
	return stream, nil
}

// open opens a stream, or does a part of what has to be done before. It returns how many rows have changed.
func open(ctx context.Context, t *database.Tx, stream *Stream, kind Kind, details string) (rows int, opened bool, err error) {
	if stream.ClusterID, err = EnsureCluster(ctx, t, stream.Cluster); err != nil {
		return 0, false, err
	}
	if stream.KindID, err = kindID(ctx, t, kind); err == nil {
		err = holdKind(ctx, t, stream.KindID)
	}
	if err != nil {
		return 0, false, err
	}
	stream.ID, err = t.Ensure(ctx,
		t.SQL("SELECT id FROM streams WHERE cluster_id = ? AND kind_id = ?", stream.ClusterID, stream.KindID),
		t.SQL("INSERT INTO streams (cluster_id, kind_id, kind, namespaced, epoch, counted, form, resource_version, listed, heard_at, "+
			"opened_at, details)"+
			" VALUES (?, ?, ?, ?, 0, 0, 0, '', ?, 0, 0, '{}')", stream.ClusterID, stream.KindID, kind.Name, kind.Namespaced, false))
	if err != nil {
		return 0, false, err
	}
	if rows, more, err := renewForm(ctx, t, stream, kind); err != nil || more {
		return rows, false, err
	}
	set := ", form = epoch + 1, kind = ?, namespaced = ?, details = ?, opened_at = ?"
	if err := raiseEpoch(ctx, t, stream, set, kind.Name, kind.Namespaced, details, time.Now().UnixMilli()); err != nil {
		return 0, false, err
	}
	if err := counts(ctx, t, stream); err != nil {
		return 0, false, err
	}
	row := t.SQL("SELECT epoch, resource_version, listed FROM streams WHERE id = ?", stream.ID)
	return 0, true, t.Row(ctx, row).Scan(&stream.Epoch, &stream.ResourceVersion, &stream.Listed)
}

// raiseEpoch refuses former writers of a stream, and sets more.
func raiseEpoch(ctx context.Context, t *database.Tx, stream *Stream, set string, values ...any) error {
	// MySQL takes the epoch that counted is compared with from before its assignment, like the others, because that comes later.
	raise := t.SQL("UPDATE streams SET counted = CASE WHEN counted = epoch THEN counted + 1 ELSE 0 END").Add(set, values...)
	_, err := t.Exec(ctx, raise.Add(", epoch = epoch + 1 WHERE id = ?", stream.ID))
	return err
}

func kindID(ctx context.Context, t *database.Tx, k Kind) (int64, error) {
	find := t.SQL("SELECT id FROM kinds WHERE api_group = ? AND version = ? AND resource = ?", k.Group, k.Version, k.Resource)
	if !t.ReusesIDs() {
		return t.Ensure(ctx, find,
			t.SQL("INSERT INTO kinds (api_group, version, resource, kind, namespaced) VALUES (?, ?, ?, ?, ?)", k.Group, k.Version, k.Resource,
				k.Name, k.Namespaced))
	}
	id, err := database.Value[int64](ctx, t, find)
	if !database.IsNone(err) {
		return id, err
	}
	// The database would give the ID of a kind that was forgotten to another one. Those that may be forgotten are lower than the last
	// revision.
	_, err = t.Exec(ctx, t.SQL("INSERT INTO kinds (id, api_group, version, resource, kind, namespaced)"+
		" VALUES (1 + MAX(("+database.LastRevision+"), (SELECT COALESCE(MAX(id), 0) FROM kinds)), ?, ?, ?, ?, ?)", k.Group, k.Version, k.Resource,
		k.Name, k.Namespaced))
	if err != nil {
		return 0, err
	}
	return database.Value[int64](ctx, t, find)
}

// renewForm makes the next writer of a stream list and write all objects again, if what the database has is not as this writer writes it:
// the kind had another name or scope, or a version of search before schema 10 has written. Such a version does not raise form with the
// epoch. It does a part of that, and reports whether there is more.
func renewForm(ctx context.Context, t *database.Tx, stream *Stream, kind Kind) (rows int, more bool, err error) {
	same := t.SQL("SELECT COUNT(*) FROM streams WHERE id = ? AND form = epoch AND kind = ? AND namespaced = ?", stream.ID, kind.Name,
		kind.Namespaced)
	if n, err := database.Value[int](ctx, t, same); err != nil || n > 0 {
		return 0, false, err
	}
	var epoch, form int64
	row := t.SQL("SELECT epoch, form FROM streams WHERE id = ?", stream.ID)
	if err := t.Row(ctx, row).Scan(&epoch, &form); err != nil {
		return 0, false, err
	}
	if form != -epoch-1 { // a writer may have the stream
		stream.renewing = nil
		return 0, true, raiseEpoch(ctx, t, stream, ", form = -epoch - 2, resource_version = ''")
	}
	if stream.renewing == nil || stream.renewing.epoch != epoch {
		stream.renewing = &renewal{epoch: epoch}
	}
	at := stream.renewing
	var ids []int64
	find := t.SQL("SELECT id, namespace, name FROM objects WHERE kind_id = ? AND cluster_id = ? AND (namespace > ? OR namespace = ? AND "+
		"name > ?) ORDER BY namespace, name LIMIT ?",
		stream.KindID, stream.ClusterID, at.namespace, at.namespace, at.name, database.RemovedAtOnce)
	err = t.Each(ctx, find, func(scan func(...any) error) error {
		var id int64
		err := scan(&id, &at.namespace, &at.name)
		ids = append(ids, id)
		return err
	})
	if err == nil {
		err = t.ForIDs(ctx, ids, func(ids []int64) *database.Statement {
			return database.AnyOf(t.SQL("UPDATE objects SET resource_version = '' WHERE id"), ids)
		})
	}
	return len(ids), len(ids) == database.RemovedAtOnce, err
}

// renewal is how far the objects of a stream have been made to be written again.
type renewal struct {
	// epoch is one that no writer has.
	epoch           int64
	namespace, name string
}

// Describe sets what clients and tables show about the kind of a stream. It returns ErrFenced if another replica has opened the stream
// since.
func (s *Registry) Describe(ctx context.Context, stream *Stream, details Details) error {
	text, err := json.Marshal(details)
	if err != nil {
		return err
	}
	return s.db.Within(ctx, func(t *database.Tx) error {
		held, err := t.Exec(ctx, t.SQL("UPDATE streams SET details = ? WHERE id = ? AND epoch = ?", string(text), stream.ID, stream.Epoch))
		if err == nil && held == 0 {
			err = ErrFenced
		}
		return err
	})
}

// Hold refuses writers of earlier epochs, and keeps later ones out until the transaction ends. syncedAt is up to when the database has
// everything after the transaction. It is zero if that is not known: then the writer only gives a sign of life.
func Hold(ctx context.Context, t *database.Tx, stream *Stream, syncedAt time.Time) error {
	set := t.SQL("UPDATE streams SET heard_at = ?", syncedAt.UnixMilli())
	if syncedAt.IsZero() {
		set = t.SQL("UPDATE streams SET opened_at = ?", time.Now().UnixMilli())
	}
	held, err := t.Exec(ctx, set.Add(" WHERE id = ? AND epoch = ?", stream.ID, stream.Epoch))
	if err == nil && held == 0 {
		err = ErrFenced
	}
	return err
}

// counts makes a stream that is being opened have its number of objects. Only the first opening after a writer that does not keep it has to
// count.
func counts(ctx context.Context, t *database.Tx, stream *Stream) error {
	counted, err := database.Value[int64](ctx, t, t.SQL("SELECT counted FROM streams WHERE id = ?", stream.ID))
	if err != nil || counted != 0 {
		return err
	}
	_, err = t.Exec(ctx, t.SQL("UPDATE streams SET counted = epoch, objects = (SELECT COUNT(*) FROM objects o WHERE o.kind_id = ? AND "+
		"o.cluster_id = ?) WHERE id = ?",
		stream.KindID, stream.ClusterID, stream.ID))
	return err
}

// Advance notes where a watch may go on after a batch, unless that is empty, and how many objects the batch has added.
func Advance(ctx context.Context, t *database.Tx, stream *Stream, resourceVersion string, added int) error {
	if resourceVersion == "" && added == 0 {
		return nil
	}
	set := t.SQL("UPDATE streams SET objects = objects + ?", added)
	if resourceVersion != "" {
		set.Add(", resource_version = ?", resourceVersion)
	}
	_, err := t.Exec(ctx, set.Add(" WHERE id = ?", stream.ID))
	return err
}

// RemoveStream removes a stream that has no objects and no events.
func RemoveStream(ctx context.Context, t *database.Tx, stream *Stream) error {
	return t.All(ctx,
		t.SQL("DELETE FROM stream_states WHERE stream_id = ?", stream.ID),
		t.SQL("DELETE FROM unreadable_rights WHERE stream_id = ?", stream.ID),
		t.SQL("DELETE FROM streams WHERE id = ?", stream.ID))
}

// BeginList notes that a list is written now, and when it was asked for.
func (s *Stream) BeginList(listing int64, askedAt time.Time) {
	if s.listing != listing {
		s.listing, s.listingSince = listing, askedAt
	}
}

// ListAskedAt returns when a list was asked for. An empty list was never begun: then it returns false.
func (s *Stream) ListAskedAt(listing int64) (at time.Time, begun bool) {
	return s.listingSince, s.listing == listing
}
