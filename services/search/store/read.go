// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// Errors of questions about what the database does not have.
var (
	ErrNotFound = errors.New("the object does not exist")
	// ErrPosition says that a page cannot go on where a query says, because no page of this list ends there.
	ErrPosition = errors.New("the token is not one of this list")
	// ErrOtherRights says that the reader of a page sees something else than that of the page before.
	ErrOtherRights = errors.New("the rights of the reader have changed since the last page")
)

// errEnough ends a page.
var errEnough = errors.New("the page is full")

// Found is an object that a search has found.
type Found struct {
	// ID is for Events.
	ID      int64
	Cluster string
	Kind    schema.GroupVersionKind
	// Resource is the plural.
	Resource string
	JSON     []byte
}

// Page is what a list comes to, besides its objects.
type Page struct {
	// Revision is the state of the database that the list shows.
	Revision int64
	// More reports whether the limit or the size has cut the list, and Next where. Full is set if that was the size.
	More, Full bool
	Next       *query.Position
	// SyncedAt has when clusters of the query were last synced: those that were not for StaleAfter, or all if the query asks for that. It is
	// zero for those whose first list is not complete.
	SyncedAt map[string]time.Time
	// LeftOut are clusters of which the list has nothing, because the rights of the reader there name too many namespaces and objects.
	LeftOut []string
	// Remaining is how many objects follow those of the list. It is -1 if the query did not ask.
	Remaining int64
}

// GroupResource returns the resource of the object.
func (f *Found) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: f.Kind.Group, Resource: f.Resource}
}

// List calls found for each object of a search. Each resource is asked for that any of these patterns describes; an empty part of a pattern
// stands for all values. streams.ErrUnknownKind says that there is none, and a *StaleError that a cluster is older than the query accepts.
// All is of one state of the database.
func (s *Store) List(ctx context.Context, patterns []schema.GroupVersionResource, q *query.Query, found func(Found) error) (Page, error) {
	page := Page{Remaining: -1}
	err := s.db.Searching(ctx, func(t *database.Tx) error {
		var err error
		if page.Revision, err = database.Value[int64](ctx, t, t.SQL("SELECT last FROM revisions WHERE id = 1")); err != nil {
			return err
		}
		past, err := pastOf(ctx, t, q, page.Revision)
		if err != nil {
			return err
		}
		if past != nil {
			page.Revision = past.revision
		}
		b, err := newSearch(ctx, t, s, patterns, q, past)
		if err != nil {
			return err
		}
		page.LeftOut = b.leftOut
		if b.readsNothing() {
			if b.clusters = streams.NoClusters; b.past == nil {
				if q.WithRemaining {
					page.Remaining = 0
				}
				return nil
			}
		}
		if page.SyncedAt, err = ages(ctx, t, b); err != nil {
			return err
		}
		if err := shareWork(ctx, t, b); err != nil {
			return err
		}
		if err := chooseIndex(ctx, t, b); err != nil {
			return err
		}
		if err := countMatches(ctx, t, b); err != nil {
			return err
		}
		if b.past != nil {
			return listPast(ctx, t, b, &page, found)
		}
		return listLatest(ctx, t, b, &page, found)
	})
	return page, err
}

// newSearch returns a search with what the database knows of its kinds and clusters, and of what the reader sees in them.
func newSearch(ctx context.Context, t *database.Tx, s *Store, patterns []schema.GroupVersionResource, q *query.Query, past *past) (*search,
	error) {
	b := &search{Dialect: t.Dialect, q: q, filter: s.filter, bounds: s.bounds, past: past, many: s.many}
	var err error
	if b.kinds, err = streams.KindIDs(ctx, t, patterns); err != nil {
		return nil, err
	}
	if len(b.kinds) == 0 {
		return nil, streams.ErrUnknownKind
	}
	if b.resourceOf, err = resourcesOf(ctx, t, b); err != nil {
		return nil, err
	}
	if b.kindNames, err = kindNamesOf(ctx, t, q); err != nil {
		return nil, err
	}
	if b.clusterNames, err = clusterNamesOf(ctx, t, q); err != nil {
		return nil, err
	}
	if b.clusters, err = streams.ClustersOf(ctx, t, q.Clusters); err != nil {
		return nil, err
	}
	if err := errors.Join(limitPast(ctx, t, b), sameClusters(ctx, t, b)); err != nil {
		return nil, err
	}
	if b.filter != nil {
		var names []string
		if b.readable, names, err = readableBy(ctx, t, b); err != nil {
			return nil, err
		}
		if err := access.IsCurrent(ctx, t, s.filter, names...); err != nil {
			return nil, err
		}
		b.clusters = clustersIn(b.readable, b.kinds)
	}
	if q.After != nil && q.After.Rights != b.rights() {
		return nil, ErrOtherRights
	}
	return b, nil
}

// readsNothing reports whether the filter is empty.
func (b *search) readsNothing() bool { return b.filter != nil && len(b.clusters) == 0 }

// listLatest lists the objects of the last revision.
func listLatest(ctx context.Context, t *database.Tx, b *search, page *Page, found func(Found) error) error {
	q, n, size, last, all := b.q, int64(0), int64(0), int64(0), int64(-1)
	for _, part := range b.parts() {
		find := part.objects()
		if err := b.checkFilter(find); err != nil {
			return err
		}
		err := t.Each(ctx, find, func(scan func(...any) error) error {
			if page.Full = b.fills(size); page.Full || q.Limit > 0 && n == q.Limit {
				page.More = true
				return errEnough
			}
			var f Found
			var original []byte
			if err := scan(&f.ID, &f.Cluster, &f.Kind.Group, &f.Kind.Version, &f.Kind.Kind, &f.Resource, &f.JSON, &original, &all); err != nil {
				return err
			}
			f.JSON, last = database.Served(f.JSON, original), f.ID
			n, size = n+1, size+int64(len(f.JSON))
			if err := b.bounds.Keep(len(f.JSON)); err != nil {
				return err
			}
			return found(f)
		})
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return err
		}
	}
	if page.More && b.counts() {
		if all < 0 {
			var err error
			if all, err = total(ctx, t, b); err != nil {
				return err
			}
		}
		page.Remaining = max(all-q.Offset-n, 0)
	} else if q.WithRemaining && !page.More {
		page.Remaining = 0
	}
	if page.More {
		page.Next = b.next(page, last)
	}
	return nil
}

// Get returns an object of a cluster. One that the filter does not allow does not exist.
func (s *Store) Get(ctx context.Context, cluster string, resource schema.GroupVersionResource, namespace, name string) (f Found,
	err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		if err := access.IsCurrent(ctx, t, s.filter, cluster); err != nil {
			return err
		}
		if s.filter != nil && !s.filter.ObjectSet(cluster, resource.GroupResource()).Has(namespace, name) {
			return ErrNotFound
		}
		find := t.SQL(`SELECT o.id, c.name, k.api_group, k.version, k.kind, k.resource, o.object, `+database.Original("o.revision")+`
FROM clusters c, kinds k, objects o
WHERE o.kind_id = k.id AND o.cluster_id = c.id
  AND c.name = ? AND k.api_group = ? AND k.version = ? AND k.resource = ? AND o.namespace = ? AND o.name = ?`,
			cluster, resource.Group, resource.Version, resource.Resource, namespace, name)
		var original []byte
		err := t.Row(ctx, find).Scan(
			&f.ID, &f.Cluster, &f.Kind.Group, &f.Kind.Version, &f.Kind.Kind, &f.Resource, &f.JSON, &original)
		f.JSON = database.Served(f.JSON, original)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		return cmp.Or(err, s.bounds.Keep(len(f.JSON)))
	})
	return f, err
}

// shareWork lets the database share the work of a search that compares fields of many objects.
func shareWork(ctx context.Context, t *database.Tx, b *search) error {
	byFields := slices.ContainsFunc(b.q.Order, func(o query.Order) bool { return len(o.Path) > 0 })
	if len(b.q.Fields)+len(b.q.Words) == 0 && !byFields {
		return nil
	}
	return t.ShareWork(ctx, t)
}

// resourcesOf returns the resources of kinds, if a field of a search means something else of some of them, or if words count.
func resourcesOf(ctx context.Context, t *database.Tx, b *search) (map[int64]schema.GroupResource, error) {
	if len(b.q.Words) == 0 && !slices.ContainsFunc(b.q.Fields, func(f query.Field) bool { return len(f.ComputedKinds()) > 0 }) {
		return nil, nil
	}
	all := map[int64]schema.GroupResource{}
	err := t.Each(ctx, t.SQL("SELECT k.id, k.api_group, k.resource FROM kinds k"), func(scan func(...any) error) error {
		var id int64
		var resource schema.GroupResource
		err := scan(&id, &resource.Group, &resource.Resource)
		all[id] = resource
		return err
	})
	return all, err
}
