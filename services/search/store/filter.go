// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// For returns the store with a filter: List and Get show only what it allows. A nil filter allows everything.
func (s *Store) For(filter access.Filter) *Store {
	limited := *s
	limited.filter = filter
	return &limited
}

// readable is an object set that the reader may read of some kinds in some clusters.
type readable struct {
	*access.ObjectSet
	clusters, kinds []int64
}

// readableBy returns what the filter of a search allows of its kinds and clusters, and the names of the clusters. With owners, these are
// all kinds.
func readableBy(ctx context.Context, t *database.Tx, b *search) (all []readable, names []string, err error) {
	type has struct {
		clusterID, kindID int64
		access.ClusterResource
	}
	var rows []has
	var about []access.ClusterResource
	err = t.Each(ctx, b.resources(), func(scan func(...any) error) error {
		var row has
		err := scan(&row.clusterID, &row.Cluster, &row.kindID, &row.Resource.Group, &row.Resource.Resource)
		rows, about = append(rows, row), append(about, row.ClusterResource)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if err := loadIncarnations(ctx, t, b, about...); err != nil {
		return nil, nil, err
	}
	parts, nameOf := map[string]*access.ObjectSet{}, map[int64]string{}
	kinds := map[string]map[int64][]int64{} // by object set and cluster
	for _, row := range rows {
		part := b.objectSet(row.Cluster, row.Resource).InNamespaces(b.q.Namespaces.In)
		if part == nil {
			continue
		}
		if len(names) == 0 || names[len(names)-1] != row.Cluster {
			names = append(names, row.Cluster)
		}
		nameOf[row.clusterID] = row.Cluster
		key := part.Key()
		if parts[key] = part; kinds[key] == nil {
			kinds[key] = map[int64][]int64{}
		}
		kinds[key][row.clusterID] = append(kinds[key][row.clusterID], row.kindID)
	}
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		first := len(all)
		for _, cluster := range slices.Sorted(maps.Keys(kinds[key])) {
			same := slices.IndexFunc(all[first:], func(v readable) bool { return slices.Equal(v.kinds, kinds[key][cluster]) })
			if same < 0 {
				all = append(all, readable{ObjectSet: parts[key], kinds: kinds[key][cluster]})
				same = len(all) - 1 - first
			}
			all[first+same].clusters = append(all[first+same].clusters, cluster)
		}
	}
	all, objects := leaveOutObjects(all)
	for _, of := range objects {
		b.leftOut = append(b.leftOut, fmt.Sprintf("%s (objects by name in namespace %s)", nameOf[of.cluster], of.namespace))
	}
	all, left := leaveOut(all)
	for _, cluster := range left {
		b.leftOut = append(b.leftOut, nameOf[cluster])
	}
	return all, names, nil
}

// resources selects the kinds that clusters have. In a search of the past, those count that are no longer copied, if states of them ended
// since.
func (b *search) resources() *database.Statement {
	find := b.SQL("SELECT s.cluster_id, c.name, s.kind_id, k.api_group, k.resource FROM streams s JOIN clusters c ON c.id = s.cluster_id" +
		" JOIN kinds k ON k.id = s.kind_id WHERE 1 = 1")
	b.narrow(find, "s")
	if b.past != nil && b.past.revision < b.past.last {
		find.Add(" UNION SELECT e.cluster_id, c.name, e.kind_id, k.api_group, k.resource FROM changes e JOIN clusters c ON c.id = e.cluster_id"+
			" JOIN kinds k ON k.id = e.kind_id WHERE e.revision > ? AND e.previous > 0 AND e.previous <= ?", b.past.revision, b.past.revision)
		find.Add(" AND NOT EXISTS (SELECT 1 FROM streams s WHERE s.cluster_id = e.cluster_id AND s.kind_id = e.kind_id)")
		b.narrow(find, "e")
	}
	return find.Add(" ORDER BY 1, 3")
}

// narrow appends that a row of a table has a kind and a cluster of the search, or of owners.
func (b *search) narrow(s *database.Statement, table string) {
	if b.q.Owner == nil {
		database.OneOf(s.Add(" AND "+table+".kind_id"), b.kinds)
	}
	if b.clusters != nil {
		database.OneOf(s.Add(" AND "+table+".cluster_id"), b.clusters)
	}
}

func (v readable) size() int { return v.Size() + len(v.kinds) + len(v.clusters) }

// namespaceOf is a namespace of a cluster.
type namespaceOf struct {
	cluster   int64
	namespace string
}

// leaveOutObjects takes the objects of namespaces that rights name one by one out of a filter, until a statement can bind the rest, those
// of namespaces with most first, and returns these, too. Otherwise Roles of one namespace would keep their readers from all others.
// Namespaces with few names stay, and so does a filter that would be empty.
func leaveOutObjects(all []readable) (rest []readable, left []namespaceOf) {
	const few = 100
	type named struct {
		at, n     int
		namespace string
	}
	total := 0
	var most []named
	for i, v := range all {
		total += v.size()
		first := len(most)
		for _, object := range v.Objects() { // which are sorted
			if len(most) == first || most[len(most)-1].namespace != object[0] {
				most = append(most, named{at: i, namespace: object[0]})
			}
			most[len(most)-1].n++
		}
	}
	if total <= access.MaxFilterValues {
		return all, nil
	}
	slices.SortStableFunc(most, func(a, b named) int { return cmp.Compare(b.n, a.n) })
	gone := make([]map[string]bool, len(all))
	for _, of := range most {
		if total <= access.MaxFilterValues || of.n <= few {
			break
		}
		if total -= 2 * of.n; gone[of.at] == nil {
			gone[of.at] = map[string]bool{}
		}
		gone[of.at][of.namespace] = true
	}
	known := map[namespaceOf]bool{}
	for i, v := range all {
		if gone[i] == nil {
			rest = append(rest, v)
			continue
		}
		for namespace := range gone[i] {
			for _, cluster := range v.clusters {
				known[namespaceOf{cluster, namespace}] = true
			}
		}
		if v.ObjectSet = v.WithoutObjectsIn(gone[i]); v.ObjectSet != nil {
			rest = append(rest, v)
		}
	}
	if len(rest) == 0 {
		return all, nil
	}
	left = slices.SortedFunc(maps.Keys(known), func(a, b namespaceOf) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.namespace, b.namespace))
	})
	return rest, left
}

// leaveOut takes clusters out of a filter until a statement can bind the rest, those with most values first, and returns them, too.
// Otherwise a cluster that names many objects for a reader would keep this reader from others. If one cluster alone is too large, the
// search fails.
func leaveOut(all []readable) (rest []readable, left []int64) {
	for {
		total, costs := 0, map[int64]float64{} // clusters share the values of a set that they have in common
		for _, v := range all {
			size := v.size()
			total += size
			for _, cluster := range v.clusters {
				costs[cluster] += float64(size) / float64(len(v.clusters))
			}
		}
		if total <= access.MaxFilterValues || len(costs) < 2 {
			return all, left
		}
		largest := slices.MaxFunc(slices.Sorted(maps.Keys(costs)), func(a, b int64) int { return cmp.Compare(costs[a], costs[b]) })
		left = append(left, largest)
		for i := range all {
			all[i].clusters = slices.DeleteFunc(all[i].clusters, func(cluster int64) bool { return cluster == largest })
		}
		all = slices.DeleteFunc(all, func(v readable) bool { return len(v.clusters) == 0 })
	}
}

// clustersIn returns the clusters in which the reader may read some of certain kinds.
func clustersIn(all []readable, kinds []int64) []int64 {
	var clusters []int64
	for _, v := range all {
		if slices.ContainsFunc(v.kinds, func(id int64) bool { return slices.Contains(kinds, id) }) {
			clusters = append(clusters, v.clusters...)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// checkFilter returns access.ErrFilterTooLarge if the filter has too many values for a statement.
func (b *search) checkFilter(s *database.Statement) error {
	if b.filter != nil && len(s.Values()) > access.MaxValues {
		return access.ErrFilterTooLarge
	}
	return nil
}

// within appends that a row of objects passes the filter. table is its name in the statement.
func (b *search) within(s *database.Statement, table string) {
	if b.filter == nil {
		return
	}
	if len(b.readable) == 0 {
		s.Add(" AND 1 = 0")
		return
	}
	if len(b.readable) > 1 {
		b.withinNamespaces(s, table)
	}
	for i, v := range b.readable {
		database.OneOf(s.Add(database.Separator(i, " AND (", " OR ")+table+".cluster_id"), v.clusters)
		if b.q.Owner != nil || !slices.Equal(v.kinds, b.kinds) || len(b.kinds) > 1 {
			database.OneOf(s.Add(" AND "+table+".kind_id"), v.kinds)
		}
		v.Condition(s, table)
	}
	s.Add(")")
}

// withinNamespaces appends the namespaces of all object sets, if they all name some: databases look for one condition on a column rather
// than for several alternatives.
func (b *search) withinNamespaces(s *database.Statement, table string) {
	const most = 500
	var namespaces []string
	for _, v := range b.readable {
		if v.IsAll() || len(v.Names()) > 0 {
			return
		}
		namespaces = append(namespaces, v.Namespaces()...)
		for _, object := range v.Objects() {
			namespaces = append(namespaces, object[0])
		}
	}
	slices.Sort(namespaces)
	if namespaces = slices.Compact(namespaces); len(namespaces) <= most {
		database.OneOf(s.Add(" AND "+table+".namespace"), namespaces)
	}
}
