// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// An object with a name may have belonged to another owner in the past, see history.Incarnations. A search shows it to the readers of the
// present owner of the name only if that owner had the name then.

// limitPast finds out what a search of the past may show: to readers, and of a cluster that the search is about, states of the
// present owners of the names.
func limitPast(ctx context.Context, t *database.Tx, b *search) (err error) {
	if b.past == nil || b.filter == nil && !b.q.SameClusters {
		return nil
	}
	b.incarnations, err = history.IncarnationsAt(ctx, t, b.past.revision)
	return err
}

// SameSince reports whether what a filter allows of a resource belonged to the same namespaces and clusters already at a revision. A
// filter may be nil.
func (s *Store) SameSince(ctx context.Context, revision int64, resource schema.GroupResource, clusters query.Choice) (same bool,
	err error) {
	err = s.db.Searching(ctx, func(t *database.Tx) error {
		in, err := history.IncarnationsAt(ctx, t, revision)
		if err != nil {
			return err
		}
		names, err := streams.ClusterNames(ctx, t)
		if err != nil {
			return err
		}
		seen := map[access.ClusterResource]*access.ObjectSet{}
		for _, name := range names {
			if clusters.Has(name) {
				seen[access.ClusterResource{Cluster: name, Resource: resource}] = (&search{filter: s.filter}).objectSetNow(name, resource)
			}
		}
		err = in.Load(ctx, t, seen)
		same = true
		for key, now := range seen {
			same = same && in.ObjectSet(key.Cluster, resource, now).Equal(now)
		}
		return err
	})
	return same, err
}

// objectSet returns what the reader may read of a resource in a cluster.
func (b *search) objectSet(cluster string, resource schema.GroupResource) *access.ObjectSet {
	part := b.objectSetNow(cluster, resource)
	if b.incarnations != nil {
		part = b.incarnations.ObjectSet(cluster, resource, part)
	}
	return part
}

// objectSetNow returns the same, as it is now.
func (b *search) objectSetNow(cluster string, resource schema.GroupResource) *access.ObjectSet {
	if b.filter == nil {
		return access.AllObjects
	}
	return b.filter.ObjectSet(cluster, resource)
}

// loadIncarnations loads what objectSet needs for resources of clusters.
func loadIncarnations(ctx context.Context, t *database.Tx, b *search, about ...access.ClusterResource) error {
	if b.incarnations == nil {
		return nil
	}
	now := map[access.ClusterResource]*access.ObjectSet{}
	for _, key := range about {
		now[key] = b.objectSetNow(key.Cluster, key.Resource)
	}
	return b.incarnations.Load(ctx, t, now)
}

// sameClusters leaves out the clusters of a search without a filter that were others then.
func sameClusters(ctx context.Context, t *database.Tx, b *search) error {
	if b.filter != nil || b.incarnations == nil {
		return nil
	}
	var clusters []int64
	err := t.Each(ctx, t.SQL("SELECT id, name FROM clusters"), func(scan func(...any) error) error {
		var id int64
		var name string
		err := scan(&id, &name)
		if b.incarnations.Has(name) && b.q.Clusters.Has(name) {
			clusters = append(clusters, id)
		}
		return err
	})
	if b.clusters = clusters; len(clusters) == 0 {
		b.clusters = streams.NoClusters
	}
	return err
}
