// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// StaleError says that clusters are older than a query accepts.
type StaleError struct {
	Max time.Duration
	// SyncedAt has when the clusters that are too old were last synced. It is zero for those without a complete list.
	SyncedAt map[string]time.Time
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%d clusters were not synced for %s", len(e.SyncedAt), e.Max)
}

// Ages returns when each cluster of a query was last synced, of the resources that patterns describe: of several, the one that was synced
// the longest time ago counts. It returns a *StaleError if a cluster is older than the query accepts. Clusters in which a filter allows
// nothing of the resources do not count.
func (s *Store) Ages(ctx context.Context, patterns []schema.GroupVersionResource, q *query.Query) (syncedAt map[string]time.Time,
	err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		b, err := newSearch(ctx, t, s, patterns, q, nil)
		switch {
		case errors.Is(err, streams.ErrUnknownKind), err == nil && b.readsNothing():
			return nil
		case err != nil:
			return err
		}
		syncedAt, err = ages(ctx, t, b)
		return err
	})
	return syncedAt, err
}

// ages returns those clusters of a search that were last synced before the time which matters: all if the query asks for them, and else
// those that it does not accept or that deserve a warning.
func ages(ctx context.Context, t *database.Tx, b *search) (map[string]time.Time, error) {
	now := time.Now()
	find := t.SQL("SELECT c.name, MIN("+streams.SyncedAt+") FROM streams s JOIN clusters c ON c.id = s.cluster_id WHERE s.kind_id", true)
	database.OneOf(find, b.kinds)
	if b.clusters != nil {
		database.OneOf(find.Add(" AND s.cluster_id"), b.clusters)
	}
	if !b.q.WithStaleness {
		limit := streams.StaleAfter
		if b.q.MaxStaleness > 0 {
			limit = min(limit, b.q.MaxStaleness)
		}
		find.Add(" AND (s.heard_at < ? OR s.listed = ?)", now.Add(-limit).UnixMilli(), false)
	}
	syncedAt := map[string]time.Time{}
	err := t.Each(ctx, find.Add(" GROUP BY c.name"), func(scan func(...any) error) error {
		var name string
		var milliseconds int64
		err := scan(&name, &milliseconds)
		syncedAt[name] = database.AsTime(milliseconds)
		return err
	})
	if err != nil || b.q.MaxStaleness == 0 {
		return syncedAt, err
	}
	named, err := readableByName(ctx, t, b)
	if err != nil {
		return nil, err
	}
	if err := addUnknown(ctx, t, named, syncedAt); err != nil {
		return nil, err
	}
	return syncedAt, refuse(syncedAt, now, b.q.MaxStaleness)
}

// readableByName returns those of the clusters that a query names in which the reader may read some of its resources. To others, a
// cluster that does not exist looks like one that does.
func readableByName(ctx context.Context, t *database.Tx, b *search) (names []string, err error) {
	if b.filter == nil || len(b.q.Clusters.In) == 0 {
		return b.q.Clusters.In, nil
	}
	var resources []schema.GroupResource
	find := t.SQL("SELECT api_group, resource FROM kinds WHERE id")
	database.OneOf(find, b.kinds)
	err = t.Each(ctx, find, func(scan func(...any) error) error {
		var of schema.GroupResource
		err := scan(&of.Group, &of.Resource)
		resources = append(resources, of)
		return err
	})
	for _, name := range b.q.Clusters.In {
		if slices.ContainsFunc(resources, func(of schema.GroupResource) bool { return b.filter.ObjectSet(name, of) != nil }) {
			names = append(names, name)
		}
	}
	return names, err
}

// addUnknown adds the clusters among those that a query names that were never synced.
func addUnknown(ctx context.Context, t *database.Tx, names []string, syncedAt map[string]time.Time) error {
	if len(names) == 0 {
		return nil
	}
	known := map[string]bool{}
	err := t.Each(ctx, database.List(t.SQL("SELECT name FROM clusters WHERE name IN "), names), func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		known[name] = true
		return err
	})
	for _, name := range names {
		if !known[name] {
			syncedAt[name] = time.Time{}
		}
	}
	return err
}

// refuse returns a *StaleError if a cluster is too old.
func refuse(syncedAt map[string]time.Time, now time.Time, limit time.Duration) error {
	old := map[string]time.Time{}
	for name, at := range syncedAt {
		if at.IsZero() || now.Sub(at) > limit {
			old[name] = at
		}
	}
	if len(old) == 0 {
		return nil
	}
	return &StaleError{Max: limit, SyncedAt: old}
}
