// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	err = s.within(ctx, func(t *transaction) error {
		var err error
		if stream.clusterID, err = t.clusterID(ctx, cluster); err != nil {
			return err
		}
		if stream.kindID, err = t.kindID(ctx, kind); err != nil {
			return err
		}
		stream.id, err = t.ensure(ctx,
			t.sql("SELECT id FROM streams WHERE cluster_id = ? AND kind_id = ?", stream.clusterID, stream.kindID),
			t.sql("INSERT INTO streams (cluster_id, kind_id, kind, namespaced, epoch, counted, form, resource_version, listed, heard_at, opened_at, details)"+
				" VALUES (?, ?, ?, ?, 0, 0, 0, '', ?, 0, 0, '{}')", stream.clusterID, stream.kindID, kind.Name, kind.Namespaced, false))
		if err != nil {
			return err
		}
		if err := t.renewForm(ctx, stream, kind); err != nil {
			return err
		}
		// MySQL takes the epoch that counted is compared with from before its assignment, like the others, because that comes later.
		open := t.sql("UPDATE streams SET counted = CASE WHEN counted = epoch THEN counted + 1 ELSE 0 END, form = epoch + 1, epoch = epoch + 1,"+
			" kind = ?, namespaced = ?, details = ?, opened_at = ? WHERE id = ?", kind.Name, kind.Namespaced, string(details), time.Now().UnixMilli(), stream.id)
		if _, err := t.exec(ctx, open); err != nil {
			return err
		}
		if err := t.counts(ctx, stream); err != nil {
			return err
		}
		row := t.sql("SELECT epoch, resource_version, listed FROM streams WHERE id = ?", stream.id)
		return t.tx.QueryRowContext(ctx, row.text.String(), row.args...).Scan(&stream.epoch, &stream.ResourceVersion, &stream.Listed)
	})
	if err != nil {
		return nil, fmt.Errorf("open the stream of %s in cluster %s: %w", kind.GroupResource(), cluster, err)
	}
	return stream, nil
}

func (t *transaction) clusterID(ctx context.Context, name string) (int64, error) {
	return t.ensure(ctx, t.sql("SELECT id FROM clusters WHERE name = ?", name), t.sql("INSERT INTO clusters (name, since) VALUES (?, ("+lastRevision+"))", name))
}

func (t *transaction) kindID(ctx context.Context, k Kind) (int64, error) {
	return t.ensure(ctx,
		t.sql("SELECT id FROM kinds WHERE api_group = ? AND version = ? AND resource = ?", k.Group, k.Version, k.Resource),
		t.sql("INSERT INTO kinds (api_group, version, resource, kind, namespaced) VALUES (?, ?, ?, ?, ?)", k.Group, k.Version, k.Resource, k.Name, k.Namespaced))
}

// renewForm makes the next writer of a stream list and write all objects again, if what the database has is not as this writer writes it: the kind had
// another name or scope, or a version of search before schema 10 has written. Such a version does not raise form with the epoch.
func (t *transaction) renewForm(ctx context.Context, stream *Stream, kind Kind) error {
	same, err := value[int](ctx, t, t.sql("SELECT COUNT(*) FROM streams WHERE id = ? AND form = epoch AND kind = ? AND namespaced = ?", stream.id, kind.Name, kind.Namespaced))
	if err != nil || same > 0 {
		return err
	}
	return t.all(ctx,
		t.sql("UPDATE objects SET resource_version = '' WHERE kind_id = ? AND cluster_id = ?", stream.kindID, stream.clusterID),
		t.sql("UPDATE streams SET resource_version = '' WHERE id = ?", stream.id))
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

// CloseStream removes a stream and its objects: the cluster does not serve the resource any more, or it is not to be searched. A writer of an
// earlier epoch is refused.
func (s *Store) CloseStream(ctx context.Context, stream *Stream) error {
	return s.within(ctx, func(t *transaction) error {
		if _, err := t.revisions(ctx, 1); err != nil {
			return err
		}
		if err := t.hold(ctx, stream, time.Time{}); err != nil {
			return err
		}
		if stream.rights {
			if err := t.changeRightsOf(ctx, stream); err != nil {
				return err
			}
		}
		return t.removeStream(ctx, stream)
	})
}

func (t *transaction) removeStream(ctx context.Context, stream *Stream) error {
	if _, err := t.removeObjects(ctx, stream, ""); err != nil {
		return err
	}
	return t.all(ctx,
		t.sql("DELETE FROM events WHERE cluster_id = ? AND EXISTS (SELECT 1 FROM kinds k WHERE k.id = ? AND k.resource = ?)",
			stream.clusterID, stream.kindID, InvolvedEvents.Resource),
		t.sql("DELETE FROM stream_states WHERE stream_id = ?", stream.id),
		t.sql("DELETE FROM unreadable_rights WHERE stream_id = ?", stream.id),
		t.sql("DELETE FROM streams WHERE id = ?", stream.id))
}

// RemoveCluster removes a cluster and all that is known of it. Writers of its streams are refused from now on.
func (s *Store) RemoveCluster(ctx context.Context, name string) error {
	return s.within(ctx, func(t *transaction) error {
		if _, err := t.revisions(ctx, 1); err != nil {
			return err
		}
		if err := t.changePolicies(ctx); err != nil {
			return err
		}
		var streams []*Stream
		err := t.each(ctx, t.sql("SELECT s.id, s.cluster_id, s.kind_id FROM streams s JOIN clusters c ON c.id = s.cluster_id WHERE c.name = ?", name),
			func(scan func(...any) error) error {
				stream := &Stream{cluster: name}
				streams = append(streams, stream)
				return scan(&stream.id, &stream.clusterID, &stream.kindID)
			})
		for _, stream := range streams {
			if err == nil {
				err = t.removeStream(ctx, stream)
			}
		}
		if err != nil {
			return err
		}
		if err := t.all(ctx,
			t.sql("DELETE FROM cluster_rights WHERE cluster_id IN (SELECT id FROM clusters WHERE name = ?)", name),
			t.sql("DELETE FROM namespaces WHERE cluster_id IN (SELECT id FROM clusters WHERE name = ?)", name),
			t.sql("DELETE FROM openapi WHERE cluster_id IN (SELECT id FROM clusters WHERE name = ?)", name),
			t.sql("DELETE FROM clusters WHERE name = ?", name)); err != nil {
			return err
		}
		return t.removeDocuments(ctx)
	})
}

// RemoveOtherStreams removes the streams of a cluster whose resources are neither among those given nor in a group that is given.
func (s *Store) RemoveOtherStreams(ctx context.Context, cluster string, keep []Kind, groups []string) error {
	kept := map[string]bool{}
	for _, kind := range keep {
		kept[kind.GroupVersionResource.String()] = true
	}
	known, err := s.allKinds(ctx, []string{cluster})
	if err != nil {
		return err
	}
	for _, kind := range known {
		if kept[kind.GroupVersionResource.String()] || slices.Contains(groups, kind.Group) {
			continue
		}
		stream, err := s.OpenStream(ctx, cluster, kind)
		if err != nil {
			return err
		}
		if err := s.CloseStream(ctx, stream); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) all(ctx context.Context, statements ...*statement) error {
	for _, statement := range statements {
		if _, err := t.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
