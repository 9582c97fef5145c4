// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
	"time"
)

// CloseStream removes a stream and its objects: the cluster does not serve the resource any more, or it is not to be searched. A writer of
// an earlier epoch is refused.
func (s *Store) CloseStream(ctx context.Context, stream *Stream) error {
	if err := s.removeEvents(ctx, stream); err != nil {
		return err
	}
	return s.remove(ctx, stream, func(t *transaction, done bool) error {
		if !done { // the next writer has to list again, if there is one
			return t.all(ctx, t.sql("UPDATE streams SET resource_version = '' WHERE id = ?", stream.id))
		}
		if stream.rights {
			if err := t.changeRightsOf(ctx, stream); err != nil {
				return err
			}
		}
		return t.removeStream(ctx, stream)
	}, "")
}

// removeStream removes a stream that has no objects and no events.
func (t *transaction) removeStream(ctx context.Context, stream *Stream) error {
	return t.all(ctx,
		t.sql("DELETE FROM stream_states WHERE stream_id = ?", stream.id),
		t.sql("DELETE FROM unreadable_rights WHERE stream_id = ?", stream.id),
		t.sql("DELETE FROM streams WHERE id = ?", stream.id))
}

// removeEvents removes the events of a stream if it is one of InvolvedEvents, some at a time.
func (s *Store) removeEvents(ctx context.Context, stream *Stream) error {
	const ofStream = "cluster_id = ? AND EXISTS (SELECT 1 FROM kinds k WHERE k.id = ? AND k.resource = ?)"
	return s.removeRows(ctx, stream, "events", "uid", ofStream, stream.clusterID, stream.kindID, InvolvedEvents.Resource)
}

// removeRows removes the rows of a table for which a condition holds, removedAtOnce at a time. cluster_id and another column are the key of
// the table. The stream is nil, or one that no other writer may have opened since.
func (s *Store) removeRows(ctx context.Context, stream *Stream, table, column, which string, values ...any) error {
	for removed := int64(removedAtOnce); removed == removedAtOnce; {
		err := s.inTurn(ctx, func(t *transaction) (int, error) {
			if _, err := t.revisions(ctx, 0); err != nil { // as in Prune
				return 0, err
			}
			if stream != nil && stream.epoch != 0 {
				if err := t.hold(ctx, stream, time.Time{}); err != nil {
					return 0, err
				}
			}
			var err error
			removed, err = t.exec(ctx, t.deleteSome(table, column, which, values...))
			return int(removed), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteSome deletes rows for which a condition holds, removedAtOnce at most.
func (d dialect) deleteSome(table, column, which string, values ...any) *statement {
	if d == mysqlFamily { // which cannot select from what it deletes from, and the others cannot limit a DELETE
		return d.sql("DELETE FROM "+table+" WHERE "+which, values...).add(" LIMIT ?", removedAtOnce)
	}
	key := "cluster_id, " + column
	return d.sql("DELETE FROM "+table+" WHERE ("+key+") IN (SELECT "+key+" FROM "+table+" WHERE "+which, values...).add(" LIMIT ?)", removedAtOnce)
}

// ofCluster is the condition for rows of a cluster.
const ofCluster = "cluster_id IN (SELECT id FROM clusters WHERE name = ?)"

// RemoveCluster removes a cluster and all that is known of it, some rows at a time. From the beginning on, its RBAC shows nothing, and
// writers of its streams are refused. If it fails, it may be called again.
func (s *Store) RemoveCluster(ctx context.Context, name string) error {
	err := s.inTurn(ctx, func(t *transaction) (int, error) {
		if _, err := t.revisions(ctx, 1); err != nil {
			return 0, err
		}
		return 0, inTurn(
			func() error { return t.changePolicies(ctx) },
			func() error {
				return t.all(ctx, t.sql("DELETE FROM cluster_rights WHERE "+ofCluster, name), t.sql("UPDATE streams SET epoch = epoch + 1, resource_version = '' WHERE "+ofCluster, name))
			})
	})
	for left := 1; left > 0 && err == nil; {
		err = inTurn(
			func() error { return s.removeStreams(ctx, name) },
			func() error { return s.removeRows(ctx, nil, "namespaces", "name", ofCluster, name) },
			func() error { return s.removeDocuments(ctx, name) },
			func() error {
				return s.inTurn(ctx, func(t *transaction) (_ int, err error) {
					left, err = t.removeEmptyCluster(ctx, name)
					return 0, err
				})
			},
		)
	}
	return err
}

// removeEmptyCluster removes a cluster if all that may be much is gone, or returns how much of that is left.
func (t *transaction) removeEmptyCluster(ctx context.Context, name string) (left int, err error) {
	if _, err := t.revisions(ctx, 0); err != nil {
		return 0, err
	}
	for _, table := range []string{"streams", "namespaces", "openapi"} {
		n, err := value[int](ctx, t, t.sql("SELECT COUNT(*) FROM "+table+" WHERE "+ofCluster, name))
		if err != nil || n > 0 {
			return n, err
		}
	}
	return 0, t.all(ctx, t.sql("DELETE FROM cluster_rights WHERE "+ofCluster, name), t.sql("DELETE FROM clusters WHERE name = ?", name))
}

// removeStreams removes the streams of a cluster.
func (s *Store) removeStreams(ctx context.Context, cluster string) error {
	var streams []*Stream
	err := s.reading(ctx, func(t *transaction) error {
		return t.each(ctx, t.sql("SELECT s.id, s.cluster_id, s.kind_id FROM streams s JOIN clusters c ON c.id = s.cluster_id WHERE c.name = ?", cluster),
			func(scan func(...any) error) error {
				stream := &Stream{cluster: cluster}
				streams = append(streams, stream)
				return scan(&stream.id, &stream.clusterID, &stream.kindID)
			})
	})
	for _, stream := range streams {
		if err == nil {
			err = s.CloseStream(ctx, stream)
		}
	}
	return err
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
