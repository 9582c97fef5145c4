// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// CloseStream removes a stream and its objects: the cluster does not serve the resource any more, or it is not to be searched. A writer of
// an earlier epoch is refused.
func (s *Store) CloseStream(ctx context.Context, stream *Stream) error {
	if err := s.removeEvents(ctx, stream); err != nil {
		return err
	}
	return s.remove(ctx, stream, func(t *database.Tx, done bool) error {
		if !done { // the next writer has to list again, if there is one
			return t.All(ctx, t.SQL("UPDATE streams SET resource_version = '' WHERE id = ?", stream.id))
		}
		if stream.rights {
			if err := changeRightsOf(ctx, t, stream); err != nil {
				return err
			}
		}
		return removeStream(ctx, t, stream)
	}, "")
}

// removeStream removes a stream that has no objects and no events.
func removeStream(ctx context.Context, t *database.Tx, stream *Stream) error {
	return t.All(ctx,
		t.SQL("DELETE FROM stream_states WHERE stream_id = ?", stream.id),
		t.SQL("DELETE FROM unreadable_rights WHERE stream_id = ?", stream.id),
		t.SQL("DELETE FROM streams WHERE id = ?", stream.id))
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
		err := s.db.InTurn(ctx, func(t *database.Tx) (int, error) {
			if _, err := t.Revisions(ctx, 0); err != nil { // as in Prune
				return 0, err
			}
			if stream != nil && stream.epoch != 0 {
				if err := hold(ctx, t, stream, time.Time{}); err != nil {
					return 0, err
				}
			}
			var err error
			removed, err = t.Exec(ctx, t.DeleteSome(table, "cluster_id, "+column, removedAtOnce, which, values...))
			return int(removed), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofCluster is the condition for rows of a cluster.
const ofCluster = "cluster_id IN (SELECT id FROM clusters WHERE name = ?)"

// RemoveCluster removes a cluster and all that is known of it, some rows at a time. From the beginning on, its RBAC shows nothing, and
// writers of its streams are refused. If it fails, it may be called again.
func (s *Store) RemoveCluster(ctx context.Context, name string) error {
	err := s.db.InTurn(ctx, func(t *database.Tx) (int, error) {
		if _, err := t.Revisions(ctx, 1); err != nil {
			return 0, err
		}
		return 0, database.InTurn(
			func() error { return changePolicies(ctx, t) },
			func() error {
				return t.All(ctx, t.SQL("DELETE FROM cluster_rights WHERE "+ofCluster, name),
					t.SQL("UPDATE streams SET epoch = epoch + 1, resource_version = '' WHERE "+ofCluster, name))
			})
	})
	for left := 1; left > 0 && err == nil; {
		err = database.InTurn(
			func() error { return s.removeStreams(ctx, name) },
			func() error { return s.removeRows(ctx, nil, "namespaces", "name", ofCluster, name) },
			func() error { return s.removeDocuments(ctx, name) },
			func() error {
				return s.db.InTurn(ctx, func(t *database.Tx) (_ int, err error) {
					left, err = removeEmptyCluster(ctx, t, name)
					return 0, err
				})
			},
		)
	}
	return err
}

// removeEmptyCluster removes a cluster if all that may be much is gone, or returns how much of that is left.
func removeEmptyCluster(ctx context.Context, t *database.Tx, name string) (left int, err error) {
	if _, err := t.Revisions(ctx, 0); err != nil {
		return 0, err
	}
	for _, table := range []string{"streams", "namespaces", "openapi"} {
		n, err := database.Value[int](ctx, t, t.SQL("SELECT COUNT(*) FROM "+table+" WHERE "+ofCluster, name))
		if err != nil || n > 0 {
			return n, err
		}
	}
	return 0, t.All(ctx, t.SQL("DELETE FROM cluster_rights WHERE "+ofCluster, name), t.SQL("DELETE FROM clusters WHERE name = ?", name))
}

// removeStreams removes the streams of a cluster.
func (s *Store) removeStreams(ctx context.Context, cluster string) error {
	var streams []*Stream
	err := s.db.Reading(ctx, func(t *database.Tx) error {
		return t.Each(ctx, t.SQL("SELECT s.id, s.cluster_id, s.kind_id FROM streams s JOIN clusters c ON c.id = s.cluster_id WHERE c.name = ?",
			cluster),
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
