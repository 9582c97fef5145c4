// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// maxParents bounds the owners that a search of the past goes through.
const maxParents = access.MaxValues / 4

// ErrTooManyOwners says that a search of the past goes through too many owners.
var ErrTooManyOwners = fmt.Errorf("more than %d owners: name clusters or namespaces", maxParents)

// parents own what a search of the past asks for.
type parents struct {
	// uid is that of an owner in any cluster, if it is not empty.
	uid string
	// refs are UIDs with the IDs of their clusters, for a statement. has is the same.
	refs [][2]any
	has  map[[2]any]bool
}

// where appends that a row of objects is owned.
func (p *parents) where(s *database.Statement) {
	switch {
	case p.uid != "":
		s.Add(" AND o.id IN (SELECT w.object_id FROM owners w WHERE w.owner_uid = ?)", p.uid)
	case len(p.refs) == 0:
		s.Add(" AND 1 = 0")
	default:
		database.Pairs(s.Add(" AND o.id IN (SELECT w.object_id FROM owners w WHERE (w.owner_uid, w.cluster_id) IN "), p.refs)
		s.Add(")")
	}
}

// own reports whether they own an object of the past.
func (p *parents) own(e *entry) bool {
	return slices.ContainsFunc(e.owners, func(uid string) bool { return uid == p.uid || p.has[[2]any{uid, e.clusterID}] })
}

// add adds an owner.
func (p *parents) add(uid string, clusterID int64) error {
	ref := [2]any{uid, clusterID}
	if p.has[ref] {
		return nil
	}
	if p.has == nil {
		p.has = map[[2]any]bool{}
	}
	p.has[ref] = true
	if p.refs = append(p.refs, ref); len(p.refs) > maxParents {
		return ErrTooManyOwners
	}
	return nil
}

// parentsOf returns who owned what a query asks for. It returns nil if the query has no owner, or one that an object names by itself.
func parentsOf(ctx context.Context, t *database.Tx, b *search) (*parents, error) {
	owner := b.q.Owner
	if owner == nil || owner.UID != "" && owner.Seniority == 0 {
		return nil, nil
	}
	p := &parents{uid: owner.UID}
	if owner.UID == "" {
		named := func(s *database.Statement) { b.namedOwner(s, "o.") }
		var err error
		if p, err = generationOf(ctx, t, b, named, func(s *database.Statement) { b.namedOwner(s, "c.") }, b.isNamedOwner); err != nil {
			return nil, err
		}
	}
	for range owner.Seniority {
		next, err := generationOf(ctx, t, b, p.where, func(*database.Statement) {}, p.own)
		if err != nil {
			return nil, err
		}
		p = next
	}
	return p, nil
}

// namedOwner appends that a row has the name of the owner of a query.
func (b *search) namedOwner(s *database.Statement, table string) {
	s.Add(" AND "+table+"name = ?", b.q.Owner.Name)
	if of := b.q.Owner.Resource; of != (schema.GroupResource{}) {
		s.Add(" AND "+table+"kind_id IN (SELECT id FROM kinds WHERE api_group = ? AND resource = ?)", of.Group, of.Resource)
	}
	if len(b.q.Namespaces.In) > 0 { // an owner is in the same namespace, or in none
		database.OneOf(s.Add(" AND "+table+"namespace"), append(slices.Clone(b.q.Namespaces.In), ""))
	}
}

func (b *search) isNamedOwner(e *entry) bool { return b.q.Clusters.Has(e.Cluster) }

// generationOf returns the objects of the past, of all kinds, that the reader sees and for which conditions hold: one for objects that are
// as they were, and two for states that have ended.
func generationOf(ctx context.Context, t *database.Tx, b *search, unchanged, ended func(*database.Statement),
	isEnded func(*entry) bool) (*parents, error) {
	next := &parents{}
	find := t.SQL("SELECT o.uid, o.cluster_id FROM objects o WHERE o.revision <= ?", b.past.revision)
	if b.clusters != nil {
		database.OneOf(find.Add(" AND o.cluster_id"), b.clusters)
	}
	b.within(find, "o")
	unchanged(find)
	if err := b.checkFilter(find); err != nil {
		return nil, err
	}
	err := t.Each(ctx, find, func(scan func(...any) error) error {
		var uid string
		var clusterID int64
		return errors.Join(scan(&uid, &clusterID), next.add(uid, clusterID))
	})
	if err != nil || b.past.revision == b.past.last {
		return next, err
	}
	find = b.endedGeneration(ended)
	if err := b.checkFilter(find); err != nil {
		return nil, err
	}
	err = t.Each(ctx, find, func(scan func(...any) error) error {
		e, err := scanEnded(scan)
		if err == nil {
			err = e.readText()
		}
		if err != nil || !b.allows(e) || !isEnded(e) {
			return err
		}
		return next.add(e.uid, e.clusterID)
	})
	return next, err
}

// endedGeneration selects the states of all kinds that have ended since, in the clusters of a query and as far as the reader may see them,
// and for which a condition holds.
func (b *search) endedGeneration(condition func(*database.Statement)) *database.Statement {
	find := (&past{revision: b.past.revision, from: -1}).endedStates(b.SQL(""))
	database.Choose(find, "c.cluster", b.q.Clusters)
	b.within(find, "c")
	condition(find)
	return find
}
