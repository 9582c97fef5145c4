// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// Interest is the part of the history that a reader may see and has asked for. Transitions reads no objects of the rest.
type Interest struct {
	// Filter has what the reader may read, or is nil for everything.
	Filter access.Filter
	// Resource is that of the kinds that Transitions gets.
	Resource schema.GroupResource
	// Query chooses clusters, namespaces and names.
	Query *query.Query
}

const (
	// revisionsAtOnce bounds how far Transitions looks for changes in one call.
	revisionsAtOnce = 500_000
	// rowsLookedAt bounds the changes of others that one statement of Transitions reads.
	rowsLookedAt = 10_000
	// MaxSetValues is how many values of an object set Transitions gives to the database. For a larger set, the database looks for the cluster
	// only.
	MaxSetValues = 500
)

// has reports whether a change is about an object of interest.
func (i *Interest) has(cluster, namespace, name string) bool {
	q := i.Query
	return q.Clusters.Has(cluster) && q.Namespaces.Has(namespace) && q.Names.Has(name) &&
		(i.Filter == nil || i.Filter.ObjectSet(cluster, i.Resource).Has(namespace, name))
}

// clusterObjects is an object set that some clusters have in common.
type clusterObjects struct {
	*access.ObjectSet
	clusters []string
}

// objectsByClusters returns what the reader may read in clusters, or more: large sets become whole clusters. It returns nil if it is still
// too much for a statement.
func (i *Interest) objectsByClusters(clusters []string) []clusterObjects {
	byKey := map[string]*clusterObjects{}
	for _, cluster := range clusters {
		part := i.Filter.ObjectSet(cluster, i.Resource).InNamespaces(i.Query.Namespaces.In)
		if part == nil || !i.Query.Clusters.Has(cluster) {
			continue
		}
		if part.Size() > MaxSetValues {
			part = access.AllObjects
		}
		key := part.Key()
		if byKey[key] == nil {
			byKey[key] = &clusterObjects{ObjectSet: part}
		}
		byKey[key].clusters = append(byKey[key].clusters, cluster)
	}
	all, size := []clusterObjects{}, 0
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all, size = append(all, *byKey[key]), size+len(byKey[key].clusters)+byKey[key].Size()
	}
	if size > access.MaxFilterValues {
		return nil
	}
	return all
}

// where appends a condition for rows of changes. Rows that do not meet it are of no interest, and has decides about the others.
func (i *Interest) where(s *database.Statement, sets []clusterObjects) {
	database.Choose(s, "c.cluster", i.Query.Clusters)
	database.Choose(s, "c.namespace", i.Query.Namespaces)
	database.Choose(s, "c.name", i.Query.Names)
	if i.Filter == nil || sets == nil {
		return
	}
	s.Add(" AND (NOT EXISTS (SELECT 1 FROM clusters g WHERE g.name = c.cluster)") // a grant of the hub may be about a cluster that is gone
	for _, of := range sets {
		database.OneOf(s.Add(" OR c.cluster"), of.clusters)
		of.Condition(s, "c")
	}
	s.Add(")")
}

// revisionsOf returns the first changes of interest after a revision and up to another one, and where the search for them ended.
func revisionsOf(ctx context.Context, t *database.Tx, after, upTo int64, kinds []int64, about *Interest) (found []int64, end int64,
	err error) {
	var clusters []string
	if about.Filter != nil {
		if clusters, err = streams.ClusterNames(ctx, t); err != nil {
			return nil, 0, err
		}
	}
	candidates := about.Candidates(clusters)
	for end = after; end < upTo && len(found) < PageRows; {
		rows := 0
		err := t.Each(ctx, candidates(t.Dialect, end, upTo, kinds), func(scan func(...any) error) error {
			var cluster, namespace, name string
			if err := scan(&end, &cluster, &namespace, &name); err != nil {
				return err
			}
			if rows++; about.has(cluster, namespace, name) {
				if found = append(found, end); len(found) == PageRows {
					return errEnough
				}
			}
			return nil
		})
		switch {
		case errors.Is(err, errEnough):
		case err != nil:
			return nil, 0, err
		case rows < rowsLookedAt:
			end = upTo
		}
	}
	return found, end, nil
}

// Candidates returns what selects changes that may be of interest, with what the interest looks at. clusters are the names of all clusters.
func (i *Interest) Candidates(clusters []string) func(d database.Dialect, after, upTo int64, kinds []int64) *database.Statement {
	var sets []clusterObjects
	if i.Filter != nil {
		sets = i.objectsByClusters(clusters)
	}
	const changes = "SELECT c.revision, c.cluster, c.namespace, c.name FROM changes c WHERE c.revision > ? AND c.revision <= ? AND c.kind_id"
	return func(d database.Dialect, after, upTo int64, kinds []int64) *database.Statement {
		find := database.OneOf(database.SQL(d, changes, after, upTo), kinds)
		i.where(find, sets)
		return find.Add(" ORDER BY c.revision LIMIT ?", rowsLookedAt)
	}
}
