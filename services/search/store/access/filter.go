// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Filter limits a search to the objects that a reader may read. A search compiles it into its conditions, so that counts, pages and owners
// know nothing of other objects.
type Filter interface {
	// AsOf is the last change of rights in any cluster that the filter knows, or -1 if it may not know all of them.
	AsOf() int64
	// Generation is that of the rights of a cluster which the filter was computed from. It is 0 if the cluster has none.
	Generation(cluster string) int64
	// Home is the cluster whose rights may show something of other clusters, or empty.
	Home() string
	// ObjectSet returns the objects of a resource in a cluster that the reader may read, or nil for none.
	ObjectSet(cluster string, resource schema.GroupResource) *ObjectSet
}

// Errors of filters.
var (
	// ErrRightsChanged says that the database has other rights than those that a filter was computed from. Compute it again.
	ErrRightsChanged = errors.New("rights have changed")
	// ErrFilterTooLarge says that rights name more namespaces and objects than a statement can.
	ErrFilterTooLarge = fmt.Errorf("the rights of the reader name more than %d namespaces and objects", MaxValues)
)

// MaxValues bounds the bound values of a statement with a filter. SQLite takes 32,766.
const MaxValues = 20_000

// MaxFilterValues is how many values of a filter a statement can bind: it binds some more, such as the namespaces of all object sets.
const MaxFilterValues = MaxValues * 9 / 10

// IsCurrent fails if rights have changed by which a filter allows objects in some clusters.
func IsCurrent(ctx context.Context, t *database.Tx, filter Filter, clusters ...string) error {
	if filter == nil {
		return nil
	}
	changed, err := RightsChanged(ctx, t)
	if err != nil || changed == filter.AsOf() {
		return err
	}
	if home := filter.Home(); home != "" && !slices.Contains(clusters, home) {
		clusters = append(clusters, home)
	}
	for part := range slices.Chunk(clusters, database.RowsAtOnce) {
		has := map[string]int64{}
		find := database.List(t.SQL("SELECT c.name, r.generation FROM cluster_rights r JOIN clusters c ON c.id = r.cluster_id WHERE c.name IN "),
			part)
		err := t.Each(ctx, find, func(scan func(...any) error) error {
			var cluster string
			var generation int64
			err := scan(&cluster, &generation)
			has[cluster] = generation
			return err
		})
		if err != nil {
			return err
		}
		for _, cluster := range part {
			if has[cluster] != filter.Generation(cluster) {
				return ErrRightsChanged
			}
		}
	}
	return nil
}

// ClusterResource is a resource in a cluster.
type ClusterResource struct {
	Cluster  string
	Resource schema.GroupResource
}
