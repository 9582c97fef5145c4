// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// field appends a requirement of a field. See query.Field for its meaning. An object or a list as a value equals nothing.
func (b *search) field(s *database.Statement, f query.Field) {
	s.Add(" AND ")
	ids, others := b.computed(f), b.kinds
	n := 0
	for kind, of := range ids {
		if len(of) == len(b.kinds) {
			b.meaning(s, f, kind)
			return
		}
		others = slices.DeleteFunc(slices.Clone(others), func(id int64) bool { return slices.Contains(of, id) })
	}
	if len(ids) == 0 {
		b.meaning(s, f, schema.GroupKind{})
		return
	}
	ids[schema.GroupKind{}] = others
	byText := func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) }
	for _, kind := range slices.SortedFunc(maps.Keys(ids), byText) {
		if of := ids[kind]; len(of) > 0 {
			database.OneOf(s.Add(database.Separator(n, "(", " OR ")+"o.kind_id"), of)
			b.meaning(s.Add(" AND "), f, kind)
			n++
		}
	}
	s.Add(")")
}

// computed returns the IDs of the kinds of which a field means something else than of others.
func (b *search) computed(f query.Field) map[schema.GroupKind][]int64 {
	ids := map[schema.GroupKind][]int64{}
	for _, kind := range f.ComputedKinds() {
		for _, id := range b.kinds {
			resource, _ := meta.UnsafeGuessKindToResource(kind.WithVersion("")) // a kind of Kubernetes itself
			if b.resourceOf[id] == resource.GroupResource() {
				ids[kind] = append(ids[kind], id)
			}
		}
	}
	return ids
}

// meaning appends what a field means for objects of a kind.
func (b *search) meaning(s *database.Statement, f query.Field, kind schema.GroupKind) {
	if f.Negative() {
		s.Add("NOT ")
	}
	alternatives := f.Alternatives(kind)
	if len(alternatives) == 0 {
		s.Add("(1 = 0)")
		return
	}
	for i, all := range alternatives {
		s.Add(database.Separator(i, "((", " OR ("))
		if len(all) == 0 {
			s.Add("1 = 1")
		}
		for j, c := range all {
			s.Add(database.Separator(j, "", " AND "))
			if !f.Negative() {
				if appended, exact := s.Contained(c); exact {
					continue
				} else if appended {
					s.Add(" AND ")
				}
			}
			s.Condition(c)
		}
		s.Add(")")
	}
	s.Add(")")
}
