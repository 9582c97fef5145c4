// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/relations"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

const (
	// mostCounted is how many related objects are found in a step at most. mostCompared is how many objects of a kind are compared with a
	// name, where no index finds it, and relationBytes how much text of objects is read.
	mostCounted, mostCompared = 1000, 20_000
	relationBytes             = 16 << 20
)

// RelationsQuestion says which relations of an object are asked for.
type RelationsQuestion struct {
	// Resource, Namespace and Name are those of the object.
	Cluster         string
	Resource        schema.GroupVersionResource
	Namespace, Name string
	// Types are those that are asked for, or nil for all.
	Types []v1beta1.RelationType
	// Depth is how many generations of owners and owned objects are asked for, and Limit how many related objects.
	Depth, Limit int
	// Related limits the related objects to those that a reader may list. It is nil if the reader may list all.
	Related access.Filter
}

func (q *RelationsQuestion) wants(of v1beta1.RelationType) bool {
	return q.Types == nil || slices.Contains(q.Types, of)
}

// Related is what is related to an object.
type Related struct {
	Revision int64
	// Subject is the object itself, and ID that of Found.
	Subject    v1beta1.RelatedObject
	ID         int64
	Relations  []v1beta1.Relation
	LeftOff    []v1beta1.RelationsLeftOff
	Incomplete bool
}

// Relations returns what is related to an object in its cluster. The filter of the store decides about the object itself: one that it does
// not allow does not exist. Everything is of one state of the database.
//
// All statements have the rights of the reader as a condition, and what they ask for depends on the object and on related objects that
// the reader may list. So no other object changes an answer, nor which statements it takes.
func (s *Store) Relations(ctx context.Context, q *RelationsQuestion) (*Related, error) {
	w := &relationsWalk{q: q, bounds: s.bounds, groups: map[relationGroupKey]*relationGroup{}, bytes: relationBytes}
	err := s.db.Searching(ctx, func(t *database.Tx) error {
		w.t = t
		for _, filter := range []access.Filter{s.filter, q.Related} {
			if err := access.IsCurrent(ctx, t, filter, q.Cluster); err != nil {
				return err
			}
		}
		if s.filter != nil && !s.filter.ObjectSet(q.Cluster, q.Resource.GroupResource()).Has(q.Namespace, q.Name) {
			return ErrNotFound
		}
		return database.Sequence(
			func() (err error) {
				w.revision, err = database.Value[int64](ctx, t, t.SQL(database.LastRevision))
				return err
			},
			func() error { return w.readKinds(ctx) },
			func() error { return w.readSubject(ctx) },
			func() error { return w.findOwners(ctx) },
			func() error { return w.findOwned(ctx) },
			func() error { return w.findReferences(ctx) },
			func() error { return w.findPointers(ctx) },
			func() error { return w.findSelected(ctx) },
			func() error { return w.findSelecting(ctx) },
		)
	})
	if err != nil {
		return nil, err
	}
	return w.answer(), nil
}

// relationsWalk finds what is related to an object.
type relationsWalk struct {
	q      *RelationsQuestion
	t      *database.Tx
	bounds database.Bounds

	revision, clusterID int64
	// kinds are those of the cluster, one of each resource. An index of 0 is that of the object.
	kinds   []relationKind
	subject relatedRow
	// object is the text of the object.
	object []byte

	groups map[relationGroupKey]*relationGroup
	// bytes are how much text may still be read.
	bytes      int64
	incomplete bool
}

// relationKind is a resource of the cluster.
type relationKind struct {
	id int64
	schema.GroupVersionResource
	name       string
	namespaced bool
}

func (k *relationKind) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.Group, Kind: k.name}
}

// relatedRow is an object.
type relatedRow struct {
	id, kindID, createdAt int64
	namespace, name, uid  string
}

// relatedColumns are those of a relatedRow.
const relatedColumns = "o.id, o.kind_id, o.namespace, o.name, o.uid, o.created_at"

func (r *relatedRow) fields(more ...any) []any {
	return append([]any{&r.id, &r.kindID, &r.namespace, &r.name, &r.uid, &r.createdAt}, more...)
}

// readKinds reads the resources of the cluster. Of several versions of a resource, the one that is asked for counts, or else the first.
func (w *relationsWalk) readKinds(ctx context.Context) error {
	find := w.t.SQL("SELECT s.cluster_id, k.id, k.api_group, k.version, k.resource, COALESCE(s.kind, k.kind),"+
		" COALESCE(s.namespaced, k.namespaced) FROM streams s JOIN kinds k ON k.id = s.kind_id JOIN clusters c ON c.id = s.cluster_id"+
		" WHERE c.name = ? ORDER BY k.id", w.q.Cluster)
	err := w.t.Each(ctx, find, func(scan func(...any) error) error {
		var k relationKind
		err := scan(&w.clusterID, &k.id, &k.Group, &k.Version, &k.Resource, &k.name, &k.namespaced)
		switch k.GroupVersionResource {
		case streams.InvolvedEvents.GroupVersionResource:
		case w.q.Resource:
			w.kinds = slices.Insert(w.kinds, 0, k)
		default:
			w.kinds = append(w.kinds, k)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(w.kinds) == 0 || w.kinds[0].GroupVersionResource != w.q.Resource {
		return ErrNotFound
	}
	seen := map[schema.GroupResource]bool{}
	w.kinds = slices.DeleteFunc(w.kinds, func(k relationKind) bool {
		has := seen[k.GroupResource()]
		seen[k.GroupResource()] = true
		return has
	})
	return nil
}

// kindWhere returns the first kind for which a condition holds, or nil.
func (w *relationsWalk) kindWhere(is func(*relationKind) bool) *relationKind {
	for i := range w.kinds {
		if is(&w.kinds[i]) {
			return &w.kinds[i]
		}
	}
	return nil
}

func (w *relationsWalk) kindOf(resource schema.GroupResource) *relationKind {
	return w.kindWhere(func(k *relationKind) bool { return k.GroupResource() == resource })
}

// readSubject reads the object itself.
func (w *relationsWalk) readSubject(ctx context.Context) error {
	find := w.t.SQL("SELECT "+relatedColumns+", o.object FROM objects o WHERE o.kind_id = ? AND o.cluster_id = ? AND o.namespace = ?"+
		" AND o.name = ?", w.kinds[0].id, w.clusterID, w.q.Namespace, w.q.Name)
	err := w.t.Row(ctx, find).Scan(w.subject.fields(&w.object)...)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return cmp.Or(err, w.bounds.Keep(len(w.object)))
}

// asSubject returns the object as references name it.
func (w *relationsWalk) asSubject() relations.Subject {
	return relations.Subject{
		Resource: w.kinds[0].GroupResource(), Kind: w.kinds[0].groupKind(), Namespace: w.subject.namespace, Name: w.subject.name,
	}
}

// described returns an object as answers name it.
func (w *relationsWalk) described(row relatedRow) v1beta1.RelatedObject {
	kind := w.kindWhere(func(k *relationKind) bool { return k.id == row.kindID })
	object := v1beta1.RelatedObject{
		Group: kind.Group, Version: kind.Version, Kind: kind.name, Resource: kind.Resource, Namespace: row.namespace, Name: row.name,
		UID: row.uid,
	}
	if row.createdAt > 0 {
		object.CreationTimestamp = new(metav1.Unix(row.createdAt, 0))
	}
	return object
}

// readable returns what the reader may list of a kind, in a namespace or in all if that is empty. It is nil for nothing.
func (w *relationsWalk) readable(kind *relationKind, namespace string) *access.ObjectSet {
	set := access.AllObjects
	if w.q.Related != nil {
		set = w.q.Related.ObjectSet(w.q.Cluster, kind.GroupResource())
	}
	if namespace != "" {
		set = set.InNamespaces([]string{namespace})
	}
	return set
}

// objects selects the objects of a kind that the reader may list, in a namespace or in all if that is empty. It is nil if these are none.
func (w *relationsWalk) objects(columns string, kind *relationKind, namespace string) (*database.Statement, error) {
	set := w.readable(kind, namespace)
	if set == nil {
		return nil, nil // no statement is needed
	}
	if set.Size() > access.MaxFilterValues {
		return nil, access.ErrFilterTooLarge
	}
	s := w.t.SQL("SELECT "+columns+" FROM objects o WHERE o.kind_id = ? AND o.cluster_id = ?", kind.id, w.clusterID)
	if namespace != "" {
		s.Add(" AND o.namespace = ?", namespace)
	}
	set.Condition(s, "o")
	return s, nil
}

// read calls a function for the rows of a statement with relatedColumns, in the order of namespaces and names, mostCounted at most. It
// reports whether there are more.
func (w *relationsWalk) read(ctx context.Context, s *database.Statement, row func(relatedRow)) (more bool, err error) {
	n := 0
	err = w.t.Each(ctx, s.Add(" ORDER BY o.namespace, o.name LIMIT ?", mostCounted+1), func(scan func(...any) error) error {
		var r relatedRow
		if more = n == mostCounted; more {
			return errEnough
		}
		n++
		err := scan(r.fields()...)
		if err == nil {
			row(r)
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return more, err
}

// readTexts does the same with the text of each object, which is the last column. Texts that the answer may not read make it incomplete,
// and so do more rows.
func (w *relationsWalk) readTexts(ctx context.Context, s *database.Statement, row func(relatedRow, []byte)) error {
	n := 0
	err := w.t.Each(ctx, s.Add(" ORDER BY o.namespace, o.name LIMIT ?", mostCounted+1), func(scan func(...any) error) error {
		var r relatedRow
		var text []byte
		if err := scan(r.fields(&text)...); err != nil {
			return err
		}
		if n++; n > mostCounted {
			w.incomplete = true
			return errEnough
		}
		return w.withText(text, func() { row(r, text) })
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// withText calls a function that reads a text. It returns errEnough if the answer has read too much.
func (w *relationsWalk) withText(text []byte, do func()) error {
	if w.bytes -= int64(len(text)); w.bytes < 0 {
		w.incomplete = true
		return errEnough
	}
	if err := w.bounds.Keep(len(text)); err != nil {
		return err
	}
	do()
	return w.bounds.Keep(-len(text))
}
