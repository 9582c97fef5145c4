// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"encoding/json"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Beat notes that a replica is alive. It returns a number for each replica, which grows with each of its beats. So there is no need to
// compare clocks.
func (s *Registry) Beat(ctx context.Context, replica string) (beats map[string]int64, err error) {
	beats = map[string]int64{}
	err = s.db.Within(ctx, func(t *database.Tx) error {
		beat := t.SQL("INSERT INTO replicas (name, beat) VALUES (?, 1)"+t.OnConflict("name")+"beat = replicas.beat + 1", replica)
		if _, err := t.Exec(ctx, beat); err != nil {
			return err
		}
		return t.Each(ctx, t.SQL("SELECT name, beat FROM replicas"), func(scan func(...any) error) error {
			var name string
			var beat int64
			err := scan(&name, &beat)
			beats[name] = beat
			return err
		})
	})
	return beats, err
}

// RemoveReplicas removes replicas that are gone.
func (s *Registry) RemoveReplicas(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	return s.db.Within(ctx, func(t *database.Tx) error {
		_, err := t.Exec(ctx, database.List(t.SQL("DELETE FROM replicas WHERE name IN "), names))
		return err
	})
}

// SaveStatus keeps the status of a stream, in JSON, for other replicas. It returns ErrFenced if another replica has opened the
// stream since.
func (s *Registry) SaveStatus(ctx context.Context, stream *Stream, status any) error {
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	return s.db.Within(ctx, func(t *database.Tx) error {
		held, err := t.Exec(ctx, t.SQL("UPDATE streams SET epoch = epoch WHERE id = ? AND epoch = ?", stream.ID, stream.Epoch))
		if err == nil && held == 0 {
			err = ErrFenced
		}
		if err != nil {
			return err
		}
		put := t.SQL("INSERT INTO stream_states (stream_id, state) VALUES (?, ?)", stream.ID, string(text))
		_, err = t.Exec(ctx, put.Add(t.OnConflict("stream_id")+"state = "+t.Inserted("state")))
		return err
	})
}

// StreamStatus is the last status of a stream that its writer stored.
type StreamStatus struct {
	Kind Kind
	// Status is in JSON.
	Status []byte
}

// StreamStatuses returns the status of each stream of a cluster, in the order of their resources.
func (s *Registry) StreamStatuses(ctx context.Context, cluster string) (all []StreamStatus, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		find := t.SQL(`SELECT k.api_group, k.version, k.resource, `+kindColumns+`, w.state
FROM streams s JOIN clusters c ON c.id = s.cluster_id JOIN kinds k ON k.id = s.kind_id JOIN stream_states w ON w.stream_id = s.id
WHERE c.name = ? ORDER BY k.api_group, k.resource, k.version`, cluster)
		return t.Each(ctx, find, func(scan func(...any) error) error {
			var one StreamStatus
			err := scan(&one.Kind.Group, &one.Kind.Version, &one.Kind.Resource, &one.Kind.Name, &one.Kind.Namespaced, &one.Status)
			all = append(all, one)
			return err
		})
	})
	return all, err
}
