// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/relations"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// ownedRow is an object with what it says of its owners.
type ownedRow struct {
	row    relatedRow
	owners []relations.Owner
}

// findOwners goes up from the object.
func (w *relationsWalk) findOwners(ctx context.Context) error {
	if !w.q.wants(v1beta1.RelationOwner) {
		return nil
	}
	level, seen := []ownedRow{{w.subject, w.owners(w.object)}}, map[int64]bool{w.subject.id: true}
	for distance := 1; distance <= w.q.Depth && len(level) > 0; distance++ {
		var next []ownedRow
		err := w.ownersOf(ctx, level, func(row, owned relatedRow, text []byte) {
			if seen[row.id] {
				return
			}
			seen[row.id] = true
			w.add(found{
				of: v1beta1.RelationOwner, direction: v1beta1.RelationOutgoing, row: row, distance: distance, via: owned,
				fields: []string{relations.OwnerField},
			})
			if len(next) == relations.MaxOwners {
				w.incomplete = true
				return
			}
			next = append(next, ownedRow{row, w.owners(text)})
		})
		if err != nil {
			return err
		}
		level = next
	}
	return nil
}

func (w *relationsWalk) owners(text []byte) []relations.Owner {
	owners, complete := relations.Owners(text)
	w.incomplete = w.incomplete || !complete
	return owners
}

// ownersOf calls a function for each owner of some objects that the reader may list. An owner of an object in a namespace is in the same
// one, or in none.
func (w *relationsWalk) ownersOf(ctx context.Context, level []ownedRow, found func(row, owned relatedRow, text []byte)) error {
	type claim struct {
		kindID               int64
		namespace, name, uid string
	}
	keys, claims := map[*relationKind][][2]string{}, map[claim]relatedRow{}
	for _, owned := range level {
		for _, owner := range owned.owners {
			kind := w.kindWhere(func(k *relationKind) bool { return k.groupKind() == owner.Kind })
			if kind == nil {
				continue
			}
			key := [2]string{"", owner.Name}
			if kind.namespaced {
				key[0] = owned.row.namespace
			}
			of := claim{kind.id, key[0], key[1], owner.UID}
			if _, known := claims[of]; !known && w.readable(kind, "").Has(key[0], key[1]) {
				keys[kind], claims[of] = append(keys[kind], key), owned.row
			}
		}
	}
	return w.byKeys(ctx, keys, ", o.object", func(scan func(...any) error) error {
		var row relatedRow
		var text []byte
		if err := scan(row.fields(&text)...); err != nil {
			return err
		}
		owned, is := claims[claim{row.kindID, row.namespace, row.name, row.uid}]
		if !is {
			return nil
		}
		return w.withText(text, func() { found(row, owned, text) })
	})
}

// byKeys reads objects by kinds, namespaces and names. more are additional columns.
func (w *relationsWalk) byKeys(ctx context.Context, keys map[*relationKind][][2]string, more string,
	row func(func(...any) error) error) error {
	byID := func(a, b *relationKind) int { return int(a.id - b.id) }
	for _, kind := range slices.SortedFunc(maps.Keys(keys), byID) {
		pairs := keys[kind]
		slices.SortFunc(pairs, func(a, b [2]string) int { return strings.Compare(a[0]+"/"+a[1], b[0]+"/"+b[1]) })
		err := w.t.Each(ctx, w.t.FindObjects(relatedColumns+more, kind.id, w.clusterID, slices.Compact(pairs)), row)
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

// findOwned goes down from the object. An object that is in a namespace owns only others there.
func (w *relationsWalk) findOwned(ctx context.Context) error {
	if !w.q.wants(v1beta1.RelationOwner) {
		return nil
	}
	level, seen := map[string]relatedRow{w.subject.uid: w.subject}, map[int64]bool{w.subject.id: true}
	for distance := 1; distance <= w.q.Depth && len(level) > 0; distance++ {
		next := map[string]relatedRow{}
		more, err := w.ownedBy(ctx, level, func(row, owner relatedRow) {
			if seen[row.id] || owner.namespace != "" && owner.namespace != row.namespace {
				return
			}
			seen[row.id], next[row.uid] = true, row
			w.add(found{
				of: v1beta1.RelationOwner, direction: v1beta1.RelationIncoming, row: row, distance: distance, via: owner,
				fields: []string{relations.OwnerField},
			})
		})
		if err != nil {
			return err
		}
		if more {
			w.incomplete = true
		}
		level = next
	}
	return nil
}

// ownedBy calls a function for each object that one of some others owns, and reports whether there are more.
func (w *relationsWalk) ownedBy(ctx context.Context, owners map[string]relatedRow,
	found func(row, owner relatedRow)) (more bool, err error) {
	uids := slices.DeleteFunc(slices.Sorted(maps.Keys(owners)), func(uid string) bool { return uid == "" })
	if len(uids) == 0 {
		return false, nil
	}
	s := w.t.SQL("SELECT "+relatedColumns+", w.owner_uid FROM owners w JOIN objects o ON o.id = w.object_id WHERE w.cluster_id = ?"+
		" AND w.owner_uid", w.clusterID)
	database.OneOf(s, uids)
	if w.subject.namespace != "" {
		s.Add(" AND o.namespace = ?", w.subject.namespace)
	}
	if some, err := w.withinAll(s); !some || err != nil {
		return false, err
	}
	n := 0
	s.Add(" ORDER BY o.kind_id, o.namespace, o.name, w.owner_uid LIMIT ?", mostCounted+1)
	err = w.t.Each(ctx, s, func(scan func(...any) error) error {
		var row relatedRow
		var owner string
		if err := scan(row.fields(&owner)...); err != nil {
			return err
		}
		if n++; n > mostCounted {
			more = true
			return errEnough
		}
		found(row, owners[owner])
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return more, err
}

// withinAll appends that an object is of one of the kinds, and that the reader may list it. some reports whether there may be such objects.
func (w *relationsWalk) withinAll(s *database.Statement) (some bool, err error) {
	sets, kinds := map[string]*access.ObjectSet{}, map[string][]int64{}
	values := 0
	for i := range w.kinds {
		kind := &w.kinds[i]
		set := w.readable(kind, w.subject.namespace)
		if set == nil {
			continue
		}
		key := set.Key()
		if sets[key] == nil {
			values += set.Size()
		}
		sets[key], kinds[key] = set, append(kinds[key], kind.id)
	}
	if values > access.MaxFilterValues {
		return false, access.ErrFilterTooLarge
	}
	for i, key := range slices.Sorted(maps.Keys(sets)) {
		database.OneOf(s.Add(database.Separator(i, " AND (", " OR ")+"(o.kind_id"), kinds[key])
		sets[key].Condition(s, "o")
		s.Add(")")
	}
	if len(sets) > 0 {
		s.Add(")")
	}
	return len(sets) > 0, nil
}

// findReferences finds what the object names.
func (w *relationsWalk) findReferences(ctx context.Context) error {
	references, complete := relations.References(w.kinds[0].GroupResource(), w.subject.namespace, w.object, w.q.Types)
	w.incomplete = w.incomplete || !complete
	keys, named := map[*relationKind][][2]string{}, map[int64]map[[2]string][]relations.Reference{}
	for _, r := range references {
		kind := w.kindWhere(func(k *relationKind) bool {
			return k.GroupResource() == r.Resource || r.Resource.Resource == "" && k.groupKind() == r.Kind
		})
		if kind == nil {
			continue
		}
		key := [2]string{"", r.Name}
		if kind.namespaced {
			key[0] = r.Namespace
		}
		if !w.readable(kind, "").Has(key[0], key[1]) {
			continue
		}
		if named[kind.id] == nil {
			named[kind.id] = map[[2]string][]relations.Reference{}
		}
		keys[kind], named[kind.id][key] = append(keys[kind], key), append(named[kind.id][key], r)
	}
	return w.byKeys(ctx, keys, "", func(scan func(...any) error) error {
		var row relatedRow
		err := scan(row.fields()...)
		for _, r := range named[row.kindID][[2]string{row.namespace, row.name}] {
			w.add(found{of: r.Type, direction: v1beta1.RelationOutgoing, row: row, distance: 1, fields: r.Fields})
		}
		return err
	})
}

// findPointers finds what names the object. The database finds objects with its name in one of the fields, and these say whether they mean
// it.
func (w *relationsWalk) findPointers(ctx context.Context) error {
	to := w.asSubject()
	for _, p := range relations.Pointers(to, w.q.Types) {
		kind := w.kindOf(p.From)
		if kind == nil || p.SameNamespace && to.Namespace != "" && !kind.namespaced {
			continue
		}
		namespace := ""
		if p.SameNamespace {
			namespace = to.Namespace
		}
		find, err := w.pointing(ctx, kind, namespace, p.Names, to.Name)
		if err != nil {
			return err
		}
		if find == nil {
			continue
		}
		err = w.readTexts(ctx, find, func(row relatedRow, text []byte) {
			references, complete := relations.ReferencesTo(p.From, row.namespace, text, to)
			w.incomplete = w.incomplete || !complete
			for _, r := range references {
				if w.q.wants(r.Type) {
					w.add(found{of: r.Type, direction: v1beta1.RelationIncoming, row: row, distance: 1, fields: r.Fields})
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pointing selects objects that have a name in one of some fields. Where no index finds fields, it compares mostCompared objects at most,
// and of these the ones whose text has the name.
func (w *relationsWalk) pointing(ctx context.Context, kind *relationKind, namespace string, paths [][]query.Step,
	name string) (*database.Statement, error) {
	s, err := w.objects(relatedColumns+", o.object", kind, namespace)
	if s == nil || err != nil {
		return nil, err
	}
	if !w.t.FindsFields() {
		if err := w.firstOnes(ctx, s, kind, namespace); err != nil {
			return nil, err
		}
		if s.Add(" AND "); !s.TextMayHave(name, false) {
			s.Add("1 = 1")
		}
	}
	for i, path := range paths {
		c := query.Condition{Path: path, Values: []string{name}}
		s.Add(database.Separator(i, " AND (", " OR "))
		appended, exact := s.Contained(c)
		if exact {
			continue
		}
		if appended {
			s.Add(" AND ")
		}
		s.Condition(c)
	}
	return s.Add(")"), nil
}

// firstOnes appends that an object is one of the first of a kind that the reader may list.
func (w *relationsWalk) firstOnes(ctx context.Context, s *database.Statement, kind *relationKind, namespace string) error {
	find, err := w.objects("o.namespace, o.name", kind, namespace)
	if find == nil || err != nil {
		return err
	}
	find.Add(" ORDER BY o.namespace, o.name LIMIT 1 OFFSET ?", mostCompared)
	return w.t.Each(ctx, find, func(scan func(...any) error) error {
		var lastNamespace, lastName string
		err := scan(&lastNamespace, &lastName)
		w.incomplete = true
		if w.t.ComparesRows() {
			s.Add(" AND (o.namespace, o.name) < (?, ?)", lastNamespace, lastName)
		} else {
			s.Add(" AND (o.namespace < ? OR o.namespace = ? AND o.name < ?)", lastNamespace, lastNamespace, lastName)
		}
		return err
	})
}

// findSelected finds the pods that the object selects.
func (w *relationsWalk) findSelected(ctx context.Context) error {
	if !w.q.wants(v1beta1.RelationSelector) {
		return nil
	}
	selector, field, readable := relations.Selector(w.kinds[0].GroupResource(), w.object)
	w.incomplete = w.incomplete || !readable
	kind := w.kindOf(relations.Pods)
	if selector == nil || !readable || kind == nil || w.subject.namespace == "" {
		return nil
	}
	find, err := w.objects(relatedColumns, kind, w.subject.namespace)
	if find == nil || err != nil {
		return err
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		w.t.Label(find, r, []int64{kind.id})
	}
	more, err := w.read(ctx, find, func(row relatedRow) {
		w.add(found{of: v1beta1.RelationSelector, direction: v1beta1.RelationOutgoing, row: row, distance: 1, fields: []string{field}})
	})
	if more {
		w.more(v1beta1.RelationSelector, v1beta1.RelationOutgoing, kind)
	}
	return err
}

// findSelecting finds what selects the object, if it is a pod.
func (w *relationsWalk) findSelecting(ctx context.Context) error {
	if !w.q.wants(v1beta1.RelationSelector) || w.kinds[0].GroupResource() != relations.Pods || w.subject.namespace == "" {
		return nil
	}
	set := relations.Labels(w.object)
	for _, resource := range relations.Selecting {
		kind := w.kindOf(resource)
		if kind == nil {
			continue
		}
		find, err := w.objects(relatedColumns+", o.object", kind, w.subject.namespace)
		if err != nil {
			return err
		}
		if find == nil {
			continue
		}
		err = w.readTexts(ctx, find, func(row relatedRow, text []byte) {
			selector, field, readable := relations.Selector(resource, text)
			w.incomplete = w.incomplete || !readable
			if readable && selects(selector, set) {
				w.add(found{of: v1beta1.RelationSelector, direction: v1beta1.RelationIncoming, row: row, distance: 1, fields: []string{field}})
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func selects(selector labels.Selector, set labels.Set) bool {
	return selector != nil && selector.Matches(set)
}
