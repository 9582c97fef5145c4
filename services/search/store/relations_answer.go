// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// found is a related object with its relation.
type found struct {
	of        v1beta1.RelationType
	direction v1beta1.RelationDirection
	row       relatedRow
	distance  int
	// via counts if the distance is greater than 1.
	via    relatedRow
	fields []string
}

// relationGroupKey is what an answer counts by: each group has a part of it, so that none keeps the others out.
type relationGroupKey struct {
	of        v1beta1.RelationType
	direction v1beta1.RelationDirection
	kindID    int64
}

type relationGroup struct {
	all  []found
	more bool
}

func (w *relationsWalk) group(key relationGroupKey) *relationGroup {
	if w.groups[key] == nil {
		w.groups[key] = &relationGroup{}
	}
	return w.groups[key]
}

// add notes a related object. An object that is related to itself is none.
func (w *relationsWalk) add(f found) {
	if f.row.id == w.subject.id {
		return
	}
	g := w.group(relationGroupKey{f.of, f.direction, f.row.kindID})
	g.all = append(g.all, f)
}

// more notes that there are more objects of a group.
func (w *relationsWalk) more(of v1beta1.RelationType, direction v1beta1.RelationDirection, kind *relationKind) {
	w.group(relationGroupKey{of, direction, kind.id}).more = true
}

// answer chooses as many objects as fit: one of each group in turn, those of a small distance first.
func (w *relationsWalk) answer() *Related {
	keys := slices.SortedFunc(maps.Keys(w.groups), w.compareGroups)
	shown, left := make([]int, len(keys)), w.q.Limit
	for again := true; again && left > 0; {
		again = false
		for i, key := range keys {
			if left > 0 && shown[i] < len(w.groups[key].all) {
				shown[i], left, again = shown[i]+1, left-1, true
			}
		}
	}
	a := &Related{Revision: w.revision, ID: w.subject.id, Subject: w.described(w.subject), Incomplete: w.incomplete}
	for i, key := range keys {
		g := w.groups[key]
		slices.SortStableFunc(g.all, func(a, b found) int {
			return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.row.namespace, b.row.namespace),
				strings.Compare(a.row.name, b.row.name))
		})
		for _, f := range g.all[:shown[i]] {
			a.Relations = append(a.Relations, w.relation(f))
		}
		if rest := len(g.all) - shown[i]; rest > 0 || g.more {
			kind := w.kindWhere(func(k *relationKind) bool { return k.id == key.kindID })
			a.LeftOff = append(a.LeftOff, v1beta1.RelationsLeftOff{
				Type: key.of, Direction: key.direction, Group: kind.Group, Resource: kind.Resource, Count: int64(rest), More: g.more,
			})
		}
	}
	return a
}

func (w *relationsWalk) relation(f found) v1beta1.Relation {
	r := v1beta1.Relation{Type: f.of, Direction: f.direction, Distance: int32(f.distance), Object: w.described(f.row), Fields: f.fields}
	if f.distance > 1 {
		r.Via = new(w.described(f.via))
	}
	return r
}

// compareGroups has the order of types, and of each type outgoing relations first, and then near ones.
func (w *relationsWalk) compareGroups(a, b relationGroupKey) int {
	place := func(of v1beta1.RelationType) int { return slices.Index(v1beta1.RelationTypes, of) }
	return cmp.Or(cmp.Compare(place(a.of), place(b.of)), -strings.Compare(string(a.direction), string(b.direction)),
		cmp.Compare(w.nearest(a), w.nearest(b)), cmp.Compare(a.kindID, b.kindID))
}

// nearest returns the smallest distance of a group.
func (w *relationsWalk) nearest(key relationGroupKey) int {
	distance := math.MaxInt
	for _, f := range w.groups[key].all {
		distance = min(distance, f.distance)
	}
	return distance
}
