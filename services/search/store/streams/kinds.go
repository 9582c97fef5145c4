// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// The kind, the scope, the names and the columns of a resource belong to a stream: clusters may disagree about them. An answer about one
// cluster has those of this cluster. An answer about several has those of the hub if that is among them and has the resource. Otherwise, it
// has those of most of them, and of equally many, those of the stream that was there first. So no cluster changes what others show, unless
// the hub lacks the resource and most agree with it.

// kindColumns are the name of a kind and its scope, as the writer of the stream s has them. A version of search before schema 10 only
// writes those of k.
const kindColumns = "COALESCE(s.kind, k.kind), COALESCE(s.namespaced, k.namespaced)"

// description is what some streams say about a resource.
type description struct {
	Kind
	// streams is how many these are, and first the lowest of their IDs. hub is 1 if that of the hub is one of them.
	streams, first, hub int64
}

// Kinds returns the resources of clusters, or of all clusters if none is named.
func (s *Registry) Kinds(ctx context.Context, clusters ...string) ([]Kind, error) {
	all, err := s.AllKinds(ctx, clusters)
	return slices.DeleteFunc(all, func(k Kind) bool { return k.GroupVersionResource == InvolvedEvents.GroupVersionResource }), err
}

// Kind returns one resource of a cluster, or of all clusters if the name is empty. If inNamespace is set, those clusters count that have it
// in namespaces. It returns ErrUnknownKind if there is none.
func (s *Registry) Kind(ctx context.Context, cluster string, resource schema.GroupVersionResource, inNamespace bool) (Kind, error) {
	if resource == InvolvedEvents.GroupVersionResource {
		return Kind{GroupVersionResource: resource}, ErrUnknownKind
	}
	var found []description
	err := s.db.Reading(ctx, func(t *database.Tx) error {
		find := t.SQL(findDescriptions+" WHERE k.api_group = ? AND k.version = ? AND k.resource = ?", s.hub, resource.Group, resource.Version,
			resource.Resource)
		if cluster != "" {
			find.Add(" AND s.cluster_id = (SELECT id FROM clusters WHERE name = ?)", cluster)
		}
		if inNamespace {
			find.Add(" AND COALESCE(s.namespaced, k.namespaced) = ?", true)
		}
		var err error
		found, err = descriptions(ctx, t, find.Add(byDescription))
		return err
	})
	if err != nil {
		return Kind{GroupVersionResource: resource}, err
	}
	if len(found) == 0 {
		return Kind{GroupVersionResource: resource}, ErrUnknownKind
	}
	return agreed(found)[0], nil
}

// AllKinds also returns InvolvedEvents. It leaves out the columns, of which a cluster may have much.
func (s *Registry) AllKinds(ctx context.Context, clusters []string) ([]Kind, error) {
	var found []description
	err := s.db.Reading(ctx, func(t *database.Tx) error {
		for _, part := range parts(clusters) {
			find := t.SQL(findDescriptions, s.hub)
			if len(part) > 0 {
				database.OneOf(find.Add(" WHERE s.cluster_id IN (SELECT id FROM clusters WHERE name"), part)
				find.Add(")")
			}
			some, err := descriptions(ctx, t, withoutColumns(t, find))
			if err != nil {
				return err
			}
			found = append(found, some...)
		}
		return nil
	})
	return agreed(found), err
}

// parts returns the clusters of each statement: one without any if none is named.
func parts(clusters []string) [][]string {
	if len(clusters) == 0 {
		return [][]string{nil}
	}
	return slices.Collect(slices.Chunk(clusters, database.RowsAtOnce))
}

// findDescriptions has the name of the hub as its first value.
const findDescriptions = "SELECT k.api_group, k.version, k.resource, COALESCE(s.kind, k.kind) AS kind, COALESCE(s.namespaced, " +
	"k.namespaced) AS namespaced," +
	" s.details, COUNT(*) AS streams, MIN(s.id) AS oldest, MAX(CASE WHEN c.name = ? THEN 1 ELSE 0 END) AS hub" +
	" FROM streams s JOIN kinds k ON k.id = s.kind_id JOIN clusters c ON c.id = s.cluster_id"

// byDescription follows findDescriptions and conditions.
const byDescription = " GROUP BY k.api_group, k.version, k.resource, " + kindColumns + ", s.details"

// withoutColumns ends a statement that begins with findDescriptions. The database takes the columns out of what many streams say at once.
func withoutColumns(t *database.Tx, find *database.Statement) *database.Statement {
	details := t.WithoutKey("d.details", "columns")
	return find.Within("SELECT d.api_group, d.version, d.resource, d.kind, d.namespaced, "+details+", d.streams, d.oldest, d.hub FROM (",
		byDescription+") d")
}

// descriptions returns what streams say, once for all that say the same.
func descriptions(ctx context.Context, t *database.Tx, find *database.Statement) (found []description, err error) {
	same := map[string]int{}
	err = t.Each(ctx, find, func(scan func(...any) error) error {
		var d description
		var details []byte
		if err := scan(&d.Group, &d.Version, &d.Resource, &d.Name, &d.Namespaced, &details, &d.streams, &d.first, &d.hub); err != nil {
			return err
		}
		key := fmt.Sprintf("%q %q %t %s", d.GroupVersionResource, d.Name, d.Namespaced, details)
		if i, has := same[key]; has { // they differ in the columns only
			found[i].streams, found[i].first, found[i].hub = found[i].streams+d.streams, min(found[i].first, d.first), max(found[i].hub, d.hub)
			return nil
		}
		same[key] = len(found)
		err := json.Unmarshal(details, &d.Details)
		found = append(found, d)
		return err
	})
	return found, err
}

// agreed returns each resource as the hub or else most streams describe it, in the order of group, version and resource. Most count in the
// name and scope first, and then, among those, in the details.
func agreed(found []description) []Kind {
	type named struct {
		schema.GroupVersionResource
		name       string
		namespaced bool
	}
	of := func(d description) named { return named{d.GroupVersionResource, d.Name, d.Namespaced} }
	totals := map[named]description{}
	for _, d := range found {
		total, has := totals[of(d)]
		if !has || d.first < total.first {
			total.first = d.first
		}
		total.streams, total.hub = total.streams+d.streams, max(total.hub, d.hub)
		totals[of(d)] = total
	}
	more := func(a, b description) int {
		return cmp.Or(cmp.Compare(b.hub, a.hub), cmp.Compare(b.streams, a.streams), cmp.Compare(a.first, b.first))
	}
	slices.SortFunc(found, func(a, b description) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Resource, b.Resource),
			more(totals[of(a)], totals[of(b)]), more(a, b))
	})
	var kinds []Kind
	for _, d := range found {
		if last := len(kinds) - 1; last < 0 || kinds[last].GroupVersionResource != d.GroupVersionResource {
			kinds = append(kinds, d.Kind)
		}
	}
	return kinds
}

// KindIDs returns the kinds that patterns describe and that a cluster has, for Transitions. An ID never stands for another kind.
func (s *Registry) KindIDs(ctx context.Context, patterns []schema.GroupVersionResource) (ids []int64, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		ids, err = KindIDs(ctx, t, patterns)
		return err
	})
	return ids, err
}

// KindIDs returns the kinds that patterns describe and that a cluster has.
func KindIDs(ctx context.Context, t *database.Tx, patterns []schema.GroupVersionResource) (ids []int64, err error) {
	find := t.SQL("SELECT k.id FROM kinds k WHERE EXISTS (SELECT 1 FROM streams s WHERE s.kind_id = k.id)")
	for i, p := range patterns {
		find.Add(database.Separator(i, " AND (", " OR "))
		find.Add("(k.api_group = ?", p.Group)
		if p.Version != "" {
			find.Add(" AND k.version = ?", p.Version)
		}
		if p.Resource != "" {
			find.Add(" AND k.resource = ?", p.Resource)
		}
		find.Add(")")
	}
	if len(patterns) > 0 {
		find.Add(")")
	}
	return t.IDs(ctx, find)
}
