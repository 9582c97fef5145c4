// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
)

// search makes the statements of a query. In all of them, o is the object, c its cluster and k its kind.
type search struct {
	database.Dialect
	q *query.Query
	// kinds are not empty. clusters are nil for all clusters.
	kinds, clusters []int64
	// resourceOf has the resources of kinds, if a field depends on them.
	resourceOf map[int64]schema.GroupResource
	// kindNames and clusterNames are there if the search looks for words.
	kindNames    kindNames
	clusterNames clusterNames
	// readable is what filter allows, if that is not nil.
	readable []readable
	// leftOut are clusters of which the filter has too many values for a statement.
	leftOut []string
	// byLabels leaves the kinds to the conditions about labels, so that PostgreSQL uses no other index.
	byLabels bool
	// known is how many objects all pages have, if the choice of an index has counted them.
	known *int64
	// many is how many objects with its words a search counts, and inOrder is set if there are more. Otherwise, matches are the IDs of these
	// objects and of a few others, if they are known.
	many    int64
	inOrder bool
	matches []int64
	filter  access.Filter
	bounds  database.Bounds
	// past is nil for the first page of the latest state. incarnations are nil if it shows everything to all readers.
	past         *past
	incarnations *history.Incarnations
}

// SQL returns a statement of the database of the search.
func (b *search) SQL(text string, values ...any) *database.Statement {
	return database.SQL(b.Dialect, text, values...)
}

// fromObjects are objects with their clusters and kinds.
const (
	fromObjects          = " FROM objects o" + joinClustersAndKinds
	joinClustersAndKinds = " JOIN clusters c ON c.id = o.cluster_id JOIN kinds k ON k.id = o.kind_id"
)

// objects selects a page. The last column is how many objects all pages have, if this query computes it, or -1.
func (b *search) objects() *database.Statement {
	all := "-1"
	if b.countsByTheWay() {
		all = "COUNT(*) OVER ()"
	}
	s := b.SQL("SELECT o.id, c.name, k.api_group, k.version, k.kind, k.resource, o.object, " + database.Original("o.revision") + ", ")
	if b.byLabels && b.isDefault() {
		// PostgreSQL sorts all objects with the labels. It looks for the clusters and kinds of the page only, which takes a third of the time
		// off.
		b.page(s.Add("o.total FROM (SELECT o.*, " + all + " AS total FROM objects o"))
		return b.order().orderBy(s.Add(") o" + joinClustersAndKinds))
	}
	b.page(s.Add(all + fromObjects))
	return s
}

// page appends the conditions, and which of the objects that meet them are in the page.
func (b *search) page(s *database.Statement) {
	b.where(s)
	b.order().orderBy(s)
	limit := int64(math.MaxInt64) // an offset needs a limit in MySQL
	if b.q.Limit > 0 {
		limit = b.q.Limit + 1 // to see whether there are more
	}
	if b.q.Limit > 0 || b.q.Offset > 0 {
		s.Add(" LIMIT ? OFFSET ?", limit, b.q.Offset)
	}
}

// allows reports whether the reader may read an object of the past. The rights are those of now.
func (b *search) allows(e *entry) bool {
	return b.objectSet(e.Cluster, e.GroupResource()).Has(e.namespace, e.name)
}

// rights returns a number that stands for what the reader may read of what the search is about.
func (b *search) rights() uint64 {
	if b.filter == nil {
		return 0
	}
	sum := fnv.New64a()
	for _, v := range b.readable {
		fmt.Fprintln(sum, v.Key(), v.clusters, v.kinds)
	}
	return sum.Sum64() | 1
}

// next returns where a page ends.
func (b *search) next(page *Page, last int64) *query.Position {
	next := &query.Position{Revision: page.Revision, After: last, Rights: b.rights()}
	if page.Remaining >= 0 {
		next.Remaining = new(page.Remaining)
	}
	if b.past != nil && b.past.from >= 0 {
		next.DiffersFrom = new(b.past.from)
	}
	return next
}

// count counts the objects of all pages.
func (b *search) count() *database.Statement {
	s := b.SQL("SELECT COUNT(*) FROM objects o")
	whole := *b
	whole.byLabels = slices.ContainsFunc(b.q.Labels, b.foundByTerms)
	whole.where(s)
	return s
}

// where appends the conditions.
func (b *search) where(s *database.Statement) {
	b.whereButForWords(s)
	if b.matches == nil {
		b.words(s, exactly)
		return
	}
	database.AnyOf(s.Add(" AND o.id"), b.matches)
	b.words(s, among)
}

func (b *search) whereButForWords(s *database.Statement) {
	if s.Add(" WHERE "); b.byLabels {
		s.Add("1 = 1")
	} else {
		database.OneOf(s.Add("o.kind_id"), b.kinds)
	}
	if b.clusters != nil {
		s.Add(" AND o.cluster_id")
		database.OneOf(s, b.clusters)
	}
	b.within(s, "o")
	database.Choose(s, "o.namespace", b.q.Namespaces)
	database.Choose(s, "o.name", b.q.Names)
	for _, part := range b.q.Fuzzy {
		b.Contains(s, "o.name", part)
	}
	if !b.q.Since.IsZero() {
		s.Add(" AND o.created_at >= ?", secondsFrom(b.q.Since))
	}
	if !b.q.Before.IsZero() {
		s.Add(" AND o.created_at < ?", secondsFrom(b.q.Before))
	}
	if b.past != nil {
		b.past.where(s, b)
	}
	if b.past == nil || b.past.parents == nil {
		b.owned(s)
	}
	for _, r := range b.q.Labels {
		b.Label(s, r, b.kinds)
	}
	for _, f := range b.q.Fields {
		b.field(s, f)
	}
}

// secondsFrom returns the first whole second that is not before a time.
func secondsFrom(t time.Time) int64 {
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return seconds
}

// owned appends who owns the objects. It goes from the owner down: p0 owns what w0 says, which is p1, and so on.
func (b *search) owned(s *database.Statement) {
	owner := b.q.Owner
	if owner == nil {
		return
	}
	s.Add(" AND o.id IN (SELECT " + generation("w", owner.Seniority) + ".object_id FROM ")
	if owner.UID != "" {
		s.Add("owners w0")
	} else {
		s.Add("objects p0 JOIN owners w0 ON w0.owner_uid = p0.uid AND w0.cluster_id = p0.cluster_id")
	}
	for i := 1; i <= owner.Seniority; i++ {
		p, w, before := generation("p", i), generation("w", i), generation("w", i-1)
		s.Add(" JOIN objects " + p + " ON " + p + ".id = " + before + ".object_id" +
			" JOIN owners " + w + " ON " + w + ".owner_uid = " + p + ".uid AND " + w + ".cluster_id = " + p + ".cluster_id")
	}
	if owner.UID != "" { // which an object has of its owners itself
		s.Add(" WHERE w0.owner_uid = ?", owner.UID)
		b.throughReadable(s, 1)
		s.Add(")")
		return
	}
	s.Add(" WHERE p0.name = ?", owner.Name)
	b.throughReadable(s, 0)
	if owner.Resource != (schema.GroupResource{}) {
		s.Add(" AND p0.kind_id IN (SELECT id FROM kinds WHERE api_group = ? AND resource = ?)", owner.Resource.Group, owner.Resource.Resource)
	}
	if len(b.q.Namespaces.In) > 0 { // an owner is in the same namespace, or in none
		database.List(s.Add(" AND p0.namespace IN "), append(slices.Clone(b.q.Namespaces.In), ""))
	}
	if b.clusters != nil {
		database.List(s.Add(" AND p0.cluster_id IN "), b.clusters)
	}
	s.Add(")")
}

// throughReadable appends that the reader may read the owners in between.
func (b *search) throughReadable(s *database.Statement, first int) {
	for i := first; i <= b.q.Owner.Seniority; i++ {
		b.within(s, generation("p", i))
	}
}

func generation(table string, n int) string { return table + string(rune('0'+n)) }
