// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// CloseStream removes a stream and its objects: the cluster does not serve the resource any more, or it is not to be searched. A writer of
// an earlier epoch is refused.
func (s *Store) CloseStream(ctx context.Context, stream *streams.Stream) error {
	if err := s.removeEvents(ctx, stream); err != nil {
		return err
	}
	return s.remove(ctx, stream, func(t *database.Tx, done bool) error {
		if !done { // the next writer has to list again, if there is one
			return t.All(ctx, t.SQL("UPDATE streams SET resource_version = '' WHERE id = ?", stream.ID))
		}
		if stream.RBAC {
			if err := access.ChangeRightsOf(ctx, t, stream); err != nil {
				return err
			}
		}
		return streams.RemoveStream(ctx, t, stream)
	}, "")
}

// removeEvents removes the events of a stream if it is one of streams.InvolvedEvents, some at a time.
func (s *Store) removeEvents(ctx context.Context, stream *streams.Stream) error {
	const ofStream = "cluster_id = ? AND EXISTS (SELECT 1 FROM kinds k WHERE k.id = ? AND k.resource = ?)"
	return s.removeRows(ctx, stream, "events", "uid", ofStream, stream.ClusterID, stream.KindID, streams.InvolvedEvents.Resource)
}

// removeRows removes the rows of a table for which a condition holds, database.RemovedAtOnce at a time. cluster_id and another column are
// the key of the table. The stream is nil, or one that no other writer may have opened since.
func (s *Store) removeRows(ctx context.Context, stream *streams.Stream, table, column, which string, values ...any) error {
	for removed := int64(database.RemovedAtOnce); removed == database.RemovedAtOnce; {
		err := s.db.WithinThrottled(ctx, func(t *database.Tx) (int, error) {
			if _, err := t.Revisions(ctx, 0); err != nil { // as in Prune
				return 0, err
			}
			if stream != nil && stream.Epoch != 0 {
				if err := streams.Hold(ctx, t, stream, time.Time{}); err != nil {
					return 0, err
				}
			}
			var err error
			removed, err = t.Exec(ctx, t.DeleteSome(table, "cluster_id, "+column, database.RemovedAtOnce, which, values...))
			return int(removed), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveCluster removes a cluster and all that is known of it, some rows at a time. From the beginning on, its RBAC shows nothing, and
// writers of its streams are refused. If it fails, it may be called again.
func (s *Store) RemoveCluster(ctx context.Context, name string) error {
	err := s.db.WithinThrottled(ctx, func(t *database.Tx) (int, error) {
		if _, err := t.Revisions(ctx, 1); err != nil {
			return 0, err
		}
		return 0, database.Sequence(
			func() error { return access.ChangePolicies(ctx, t) },
			func() error {
				return t.All(ctx, t.SQL("DELETE FROM cluster_rights WHERE "+streams.OfCluster, name),
					t.SQL("UPDATE streams SET epoch = epoch + 1, resource_version = '' WHERE "+streams.OfCluster, name))
			})
	})
	for left := 1; left > 0 && err == nil; {
		err = database.Sequence(
			func() error { return s.removeStreams(ctx, name) },
			func() error { return s.removeRows(ctx, nil, "namespaces", "name", streams.OfCluster, name) },
			func() error { return s.RemoveDocuments(ctx, name) },
			func() error {
				return s.db.WithinThrottled(ctx, func(t *database.Tx) (_ int, err error) {
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
		n, err := database.Value[int](ctx, t, t.SQL("SELECT COUNT(*) FROM "+table+" WHERE "+streams.OfCluster, name))
		if err != nil || n > 0 {
			return n, err
		}
	}
	return 0, t.All(ctx, t.SQL("DELETE FROM cluster_rights WHERE "+streams.OfCluster, name), t.SQL("DELETE FROM clusters WHERE name = ?",
		name))
}

// removeStreams removes the streams of a cluster.
func (s *Store) removeStreams(ctx context.Context, cluster string) error {
	var all []*streams.Stream
	err := s.db.Reading(ctx, func(t *database.Tx) error {
		return t.Each(ctx, t.SQL("SELECT s.id, s.cluster_id, s.kind_id FROM streams s JOIN clusters c ON c.id = s.cluster_id WHERE c.name = ?",
			cluster),
			func(scan func(...any) error) error {
				stream := &streams.Stream{Cluster: cluster}
				all = append(all, stream)
				return scan(&stream.ID, &stream.ClusterID, &stream.KindID)
			})
	})
	for _, stream := range all {
		if err == nil {
			err = s.CloseStream(ctx, stream)
		}
	}
	return err
}

// RemoveOtherStreams removes the streams of a cluster whose resources are neither among those given nor in a group that is given.
func (s *Store) RemoveOtherStreams(ctx context.Context, cluster string, keep []streams.Kind, groups []string) error {
	kept := map[string]bool{}
	for _, kind := range keep {
		kept[kind.GroupVersionResource.String()] = true
	}
	known, err := s.AllKinds(ctx, []string{cluster})
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

// remove removes the objects of a stream for which a condition holds. Every transaction calls a function when some are gone. done is set
// for the last one. A stream without an epoch is being removed by another replica than its writer.
func (s *Store) remove(ctx context.Context, stream *streams.Stream, then func(t *database.Tx, done bool) error, condition string,
	values ...any) error {
	for done := false; !done; {
		err := s.db.WithinThrottled(ctx, func(t *database.Tx) (removed int, err error) {
			if _, err := t.Revisions(ctx, 1); err != nil {
				return 0, err
			}
			if stream.Epoch != 0 {
				if err := streams.Hold(ctx, t, stream, time.Time{}); err != nil {
					return 0, err
				}
			}
			if removed, err = removeSome(ctx, t, stream, condition, values...); err != nil {
				return 0, err
			}
			if stream.RBAC && removed > 0 {
				if err := access.ChangeRightsOf(ctx, t, stream); err != nil {
					return 0, err
				}
			}
			if err := streams.Advance(ctx, t, stream, "", -removed); err != nil {
				return 0, err
			}
			done = removed < database.RemovedAtOnce
			return removed, then(t, done)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveOtherNamespaces removes the objects of a stream that are not in some namespaces, some at a time. If it fails, it may be called
// again. The next writer lists, because it may want others.
func (s *Store) RemoveOtherNamespaces(ctx context.Context, stream *streams.Stream, keep []string) error {
	values := make([]any, 0, len(keep))
	for _, namespace := range keep {
		values = append(values, namespace)
	}
	condition := " AND namespace NOT IN (" + strings.TrimSuffix(strings.Repeat("?, ", len(keep)), ", ") + ")"
	return s.remove(ctx, stream, func(t *database.Tx, _ bool) error {
		return t.All(ctx, t.SQL("UPDATE streams SET resource_version = '' WHERE id = ?", stream.ID))
	}, condition, values...)
}

// removeSome deletes objects of a stream for which a condition holds, database.RemovedAtOnce at most, and records that. It returns how many
// these were. The transaction must have locked the counter of revisions.
func removeSome(ctx context.Context, t *database.Tx, stream *streams.Stream, condition string, values ...any) (removed int, err error) {
	var records []history.Record
	var ids []int64
	const ofStream = "SELECT id, revision, namespace, name FROM objects WHERE kind_id = ? AND cluster_id = ?"
	find := t.SQL(ofStream, stream.KindID, stream.ClusterID).Add(condition, values...)
	err = t.Each(ctx, find.Add(" ORDER BY namespace, name LIMIT ?", database.RemovedAtOnce), func(scan func(...any) error) error {
		r := history.Record{Deleted: true}
		err := scan(&r.ID, &r.Previous, &r.Namespace, &r.Name)
		records, ids = append(records, r), append(ids, r.ID)
		return err
	})
	if err != nil || len(records) == 0 {
		return 0, err
	}
	first, err := t.Revisions(ctx, len(records))
	if err != nil {
		return 0, err
	}
	for i := range records {
		records[i].Revision = first + int64(i)
	}
	return len(records), database.Sequence(
		func() error { return history.KeepStates(ctx, t, ids) },
		func() error { return deleteObjects(ctx, t, ids) },
		func() error { return history.AddChanges(ctx, t, stream, records) },
	)
}
