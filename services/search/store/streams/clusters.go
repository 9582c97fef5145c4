// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"math"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// ClusterUIDs returns what SetClusterUID has stored, by the names of clusters.
func (s *Registry) ClusterUIDs(ctx context.Context) (uids map[string]string, err error) {
	uids = map[string]string{}
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		return t.Each(ctx, t.SQL("SELECT name, uid FROM clusters"), func(scan func(...any) error) error {
			var name, uid string
			err := scan(&name, &uid)
			uids[name] = uid
			return err
		})
	})
	return uids, err
}

// SetClusterUID notes which cluster has a name. Before another one may have the name, call RemoveCluster.
func (s *Registry) SetClusterUID(ctx context.Context, name, uid string) error {
	return s.db.Within(ctx, func(t *database.Tx) error {
		if _, err := t.Revisions(ctx, 0); err != nil {
			return err
		}
		id, err := EnsureCluster(ctx, t, name)
		if err == nil {
			_, err = t.Exec(ctx, t.SQL("UPDATE clusters SET uid = ? WHERE id = ?", uid, id))
		}
		return err
	})
}

// HasCluster reports whether a cluster is known.
func (s *Registry) HasCluster(ctx context.Context, name string) (has bool, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		n, err := database.Value[int](ctx, t, t.SQL("SELECT COUNT(*) FROM clusters WHERE name = ?", name))
		has = n > 0
		return err
	})
	return has, err
}

// Clusters returns the names of all clusters.
func (s *Registry) Clusters(ctx context.Context) (names []string, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		names, err = ClusterNames(ctx, t)
		return err
	})
	return names, err
}

// ClusterNames returns the names of all clusters.
func ClusterNames(ctx context.Context, t *database.Tx) (names []string, err error) {
	err = t.Each(ctx, t.SQL("SELECT name FROM clusters ORDER BY name"), func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

// NoClusters stands for none.
var NoClusters = []int64{math.MinInt64}

// ClustersOf returns the clusters of a choice, or nil for all.
func ClustersOf(ctx context.Context, t *database.Tx, c query.Choice) ([]int64, error) {
	if c.Empty() {
		return nil, nil
	}
	find := t.SQL("SELECT c.id FROM clusters c WHERE 1 = 1")
	database.Choose(find, "c.name", c)
	ids, err := t.IDs(ctx, find)
	if len(ids) == 0 {
		ids = NoClusters
	}
	return ids, err
}

// EnsureCluster returns the ID of a cluster, which it adds unless it is known.
func EnsureCluster(ctx context.Context, t *database.Tx, name string) (int64, error) {
	return t.Ensure(ctx, t.SQL("SELECT id FROM clusters WHERE name = ?", name),
		t.SQL("INSERT INTO clusters (name, since) VALUES (?, ("+database.LastRevision+"))", name))
}

// OfCluster is the condition for rows of a cluster.
const OfCluster = "cluster_id IN (SELECT id FROM clusters WHERE name = ?)"
