// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// eventsOfObject is how many events of an object are returned at most, the latest ones.
const eventsOfObject = 100

// Involved is the object that an event is about.
type Involved struct {
	Kind, Namespace, Name string
	// UID is empty, or the name in case of a node, in some events.
	UID string
	// SeenAt is when the event was last seen, in seconds since 1970.
	SeenAt int64
}

// putEvents keeps events. That the cluster forgets one does not matter.
func putEvents(ctx context.Context, t *database.Tx, stream *streams.Stream, changes []Change) error {
	var rows [][]any
	for i := range changes {
		c := &changes[i]
		if c.Deleted || c.Involved == nil {
			continue
		}
		of := c.Involved
		rows = append(rows, []any{stream.ClusterID, c.UID, of.Kind, of.Namespace, of.Name, of.UID, of.SeenAt, string(c.JSON)})
	}
	replace := t.OnConflict("cluster_id, uid") + "seen_at = " + t.Inserted("seen_at") + ", event = " + t.Inserted("event")
	return t.Insert(ctx, "events", []string{"cluster_id", "uid", "involved_kind", "involved_namespace", "involved_name", "involved_uid",
		"seen_at", "event"}, rows, replace)
}

// Events returns the events of objects by Found.ID, the latest first.
func (s *Store) Events(ctx context.Context, ids []int64) (map[int64][][]byte, error) {
	events := map[int64][][]byte{}
	err := s.db.Searching(ctx, func(t *database.Tx) error {
		for part := range slices.Chunk(ids, database.RowsAtOnce) {
			find := t.SQL(`SELECT f.id, e.event FROM (
SELECT o.id, e.cluster_id, e.uid, ROW_NUMBER() OVER (PARTITION BY o.id ORDER BY e.seen_at DESC, e.uid) AS place
FROM objects o JOIN kinds k ON k.id = o.kind_id
JOIN streams s ON s.cluster_id = o.cluster_id AND s.kind_id = o.kind_id
JOIN events e ON e.cluster_id = o.cluster_id AND e.involved_kind = COALESCE(s.kind, k.kind)
  AND e.involved_namespace = o.namespace AND e.involved_name = o.name
WHERE (e.involved_uid = o.uid OR e.involved_uid = o.name OR e.involved_uid = '') AND o.id IN `)
			database.List(find, part).Add(") f JOIN events e ON e.cluster_id = f.cluster_id AND e.uid = f.uid WHERE f.place <= ? ORDER BY f.id, "+
				"f.place", eventsOfObject)
			err := t.Each(ctx, find, func(scan func(...any) error) error {
				var id int64
				var event []byte
				if err := scan(&id, &event); err != nil {
					return err
				}
				events[id] = append(events[id], event)
				return s.bounds.Keep(len(event))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return events, err
}

// eventsAtOnce bounds the events that one transaction removes. Writers wait for it.
const eventsAtOnce = 5000

// ForgetEvents removes the events that were last seen before a time.
func (s *Store) ForgetEvents(ctx context.Context, before time.Time) error {
	return s.forgetEvents(ctx, "seen_at < ?", before.Unix())
}

// TrimEvents removes the events of a cluster that were seen before the latest ones, of which it keeps some.
func (s *Store) TrimEvents(ctx context.Context, cluster string, keep int) error {
	var last []int64
	err := s.db.Reading(ctx, func(t *database.Tx) error {
		find := t.SQL("SELECT e.seen_at FROM events e JOIN clusters c ON c.id = e.cluster_id WHERE c.name = ? ORDER BY e.seen_at DESC LIMIT 1 "+
			"OFFSET ?", cluster, keep)
		return t.Each(ctx, find, func(scan func(...any) error) error {
			last = append(last, 0)
			return scan(&last[0])
		})
	})
	if err != nil || len(last) == 0 {
		return err
	}
	return s.forgetEvents(ctx, "seen_at <= ? AND cluster_id = (SELECT id FROM clusters WHERE name = ?)", last[0], cluster)
}

// forgetEvents removes the events that a condition is true of.
func (s *Store) forgetEvents(ctx context.Context, which string, values ...any) error {
	for {
		var removed int64
		err := s.db.Within(ctx, func(t *database.Tx) error {
			var err error
			removed, err = t.Exec(ctx, t.DeleteSome("events", "cluster_id, uid", eventsAtOnce, which, values...))
			return err
		})
		if err != nil || removed < eventsAtOnce {
			return err
		}
	}
}
