// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// A stream was synced at a time if the database has all that the member had then, as far as the member has reported. That is when the last
// event or bookmark of a batch came, when a complete list was asked for, or what MarkSynced notes of a quiet stream. A stream without a
// complete list was never synced. Times are those of the replica that copies.

// StaleAfter is how long ago a stream may have been synced until the answers of a search warn of it.
const StaleAfter = 3 * time.Minute

// SyncedAt selects when a stream was last synced. It is zero without a complete list. Bind true to its placeholder.
const SyncedAt = "CASE WHEN s.listed = ? THEN s.heard_at ELSE 0 END"

// MarkSynced notes that streams were synced at a time. It leaves out those that another replica has opened since, and those that were
// synced later.
func (s *Registry) MarkSynced(ctx context.Context, streams []*Stream, at time.Time) error {
	keys := make([][2]int64, 0, len(streams))
	for _, stream := range streams {
		keys = append(keys, [2]int64{stream.ID, stream.Epoch})
	}
	slices.SortFunc(keys, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) }) // replicas lock rows in one order
	for part := range slices.Chunk(keys, database.RowsAtOnce) {
		err := s.db.Within(ctx, func(t *database.Tx) error {
			_, err := t.Exec(ctx, database.Pairs(t.SQL("UPDATE streams SET heard_at = ? WHERE heard_at < ? AND (id, epoch) IN ", at.UnixMilli(),
				at.UnixMilli()), part))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Alive returns when the writer of a stream last gave a sign of life.
func (s *Registry) Alive(ctx context.Context, stream *Stream) (at time.Time, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		latest := "SELECT CASE WHEN heard_at > opened_at THEN heard_at ELSE opened_at END FROM streams WHERE id = ?"
		milliseconds, err := database.Value[int64](ctx, t, t.SQL(latest, stream.ID))
		at = time.UnixMilli(milliseconds)
		return err
	})
	return at, err
}

// State is how far the copy of a cluster is.
type State struct {
	// Resources are copied, and of Incomplete ones the first list is not complete.
	Resources, Incomplete int
	// SyncedAt is when the resource was synced that is silent for the longest. It is zero while a first list is not complete.
	SyncedAt time.Time
	// Stale are the resources that were not synced for StaleAfter, in their order.
	Stale []schema.GroupResource
}

// States returns the states of all clusters of which something is copied, by name.
func (s *Registry) States(ctx context.Context) (map[string]State, error) {
	states := map[string]State{}
	before := time.Now().Add(-StaleAfter)
	err := s.db.Reading(ctx, func(t *database.Tx) error {
		find := t.SQL("SELECT c.name, k.api_group, k.resource, "+SyncedAt+
			" FROM streams s JOIN clusters c ON c.id = s.cluster_id JOIN kinds k ON k.id = s.kind_id ORDER BY c.name, k.api_group, k.resource", true)
		return t.Each(ctx, find, func(scan func(...any) error) error {
			var name string
			var resource schema.GroupResource
			var milliseconds int64
			if err := scan(&name, &resource.Group, &resource.Resource, &milliseconds); err != nil {
				return err
			}
			state, known := states[name]
			at := database.AsTime(milliseconds)
			if !known || at.Before(state.SyncedAt) {
				state.SyncedAt = at
			}
			state.Resources++
			if at.IsZero() {
				state.Incomplete++
			}
			if at.Before(before) {
				state.Stale = append(state.Stale, resource)
			}
			states[name] = state
			return nil
		})
	})
	return states, err
}
