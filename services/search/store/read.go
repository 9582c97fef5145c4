// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// Errors of questions about what the database does not have.
var (
	ErrUnknownCluster = errors.New("the cluster is not known")
	ErrUnknownKind    = errors.New("no cluster has the resource")
	ErrNotFound       = errors.New("the object does not exist")
	// ErrPosition says that a page cannot go on where a query says, because no page of this list ends there.
	ErrPosition = errors.New("the token is not one of this list")
	// ErrOtherRights says that the reader of a page sees something else than that of the page before.
	ErrOtherRights = errors.New("the rights of the reader have changed since the last page")
	// ErrTimeout says that the database did not answer in statementTimeout, with the wait for a connection.
	ErrTimeout = fmt.Errorf("the database did not answer in %s", statementTimeout)
)

// statementTimeout bounds what a search may take of the database.
const statementTimeout = 30 * time.Second

// workMemory is what PostgreSQL may take for one step of a search before it forgets which objects of a page an index has named.
const workMemory = "32MB"

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
	// Heard is when clusters of the query were heard: those that were not heard for StaleAfter, or all if the query asks for that. It is zero for those whose
	// first list is not complete.
	Heard map[string]time.Time
	// LeftOut are clusters of which the list has nothing, because the rights of the reader there name too many namespaces and objects.
	LeftOut []string
	// Remaining is how many objects follow those of the list. It is -1 if nobody asked.
	Remaining int64
}

// GroupResource returns the resource of the object.
func (f *Found) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: f.Kind.Group, Resource: f.Resource}
}

// List calls found for each object of a search. Each resource is asked for that any of these patterns describes; an empty part of a pattern stands for all
// values. ErrUnknownKind says that there is none, and a *StaleError that a cluster is older than the query accepts. All is of one state of the database.
func (s *Store) List(ctx context.Context, patterns []schema.GroupVersionResource, q *query.Query, found func(Found) error) (Page, error) {
	page := Page{Remaining: -1}
	err := s.searching(ctx, func(t *transaction) error {
		var err error
		if page.Revision, err = value[int64](ctx, t, t.sql("SELECT last FROM revisions WHERE id = 1")); err != nil {
			return err
		}
		past, err := t.pastOf(ctx, q, page.Revision)
		if err != nil {
			return err
		}
		if past != nil {
			page.Revision = past.revision
		}
		b, err := t.newSearch(ctx, s, patterns, q, past)
		if err != nil {
			return err
		}
		page.LeftOut = b.leftOut
		if b.seesNothing() {
			if b.clusters = noClusters; b.past == nil {
				if q.WithRemaining {
					page.Remaining = 0
				}
				return nil
			}
		}
		if page.Heard, err = t.ages(ctx, b); err != nil {
			return err
		}
		if err := t.shareWork(ctx, b); err != nil {
			return err
		}
		if err := t.chooseIndex(ctx, b); err != nil {
			return err
		}
		if b.past != nil {
			return t.listPast(ctx, b, &page, found)
		}
		return t.listLatest(ctx, b, &page, found)
	})
	return page, err
}

// newSearch returns a search with what the database knows of its kinds and clusters, and of what the reader sees in them.
func (t *transaction) newSearch(ctx context.Context, s *Store, patterns []schema.GroupVersionResource, q *query.Query, past *past) (*search, error) {
	b := &search{dialect: t.dialect, q: q, scope: s.scope, bounds: s.bounds, past: past}
	var err error
	if b.kinds, err = t.kindIDs(ctx, patterns); err != nil {
		return nil, err
	}
	if len(b.kinds) == 0 {
		return nil, ErrUnknownKind
	}
	if b.resourceOf, err = t.resourcesOf(ctx, b); err != nil {
		return nil, err
	}
	if b.clusters, err = t.clusterIDs(ctx, q.Clusters); err != nil {
		return nil, err
	}
	if err := errors.Join(t.limitPast(ctx, b), t.sameClusters(ctx, b)); err != nil {
		return nil, err
	}
	if b.scope != nil {
		var names []string
		if b.visible, names, err = t.visibleTo(ctx, b); err != nil {
			return nil, err
		}
		if err := t.isCurrent(ctx, s.scope, names...); err != nil {
			return nil, err
		}
		b.clusters = clustersIn(b.visible, b.kinds)
	}
	if q.After != nil && q.After.Rights != b.rights() {
		return nil, ErrOtherRights
	}
	return b, nil
}

// seesNothing reports whether the reader sees nothing of what there is.
func (b *search) seesNothing() bool { return b.scope != nil && len(b.clusters) == 0 }

// listLatest lists what there is.
func (t *transaction) listLatest(ctx context.Context, b *search, page *Page, found func(Found) error) error {
	q, find := b.q, b.objects()
	if b.scope != nil && len(find.args) > maxValues {
		return ErrScopeTooLarge
	}
	n, size, last, all := int64(0), int64(0), int64(0), int64(-1)
	err := t.each(ctx, find, func(scan func(...any) error) error {
		if page.Full = b.fills(size); page.Full || q.Limit > 0 && n == q.Limit {
			page.More = true
			return errEnough
		}
		var f Found
		var original []byte
		if err := scan(&f.ID, &f.Cluster, &f.Kind.Group, &f.Kind.Version, &f.Kind.Kind, &f.Resource, &f.JSON, &original, &all); err != nil {
			return err
		}
		f.JSON, last = served(f.JSON, original), f.ID
		n, size = n+1, size+int64(len(f.JSON))
		if err := b.bounds.charge(len(f.JSON)); err != nil {
			return err
		}
		return found(f)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil {
		return err
	}
	if q.WithRemaining {
		if page.Remaining = 0; page.More {
			if all < 0 {
				if all, err = t.total(ctx, b); err != nil {
					return err
				}
			}
			page.Remaining = max(all-q.Offset-n, 0)
		}
	}
	if page.More {
		page.Next = b.next(page, last)
	}
	return nil
}

// Get returns an object of a cluster. One outside of the scope does not exist.
func (s *Store) Get(ctx context.Context, cluster string, resource schema.GroupVersionResource, namespace, name string) (f Found, err error) {
	err = s.reading(ctx, func(t *transaction) error {
		if err := t.isCurrent(ctx, s.scope, cluster); err != nil {
			return err
		}
		if s.scope != nil && !s.scope.Part(cluster, resource.GroupResource()).Allows(namespace, name) {
			return ErrNotFound
		}
		find := t.sql(`SELECT o.id, c.name, k.api_group, k.version, k.kind, k.resource, o.object, `+original("o.revision")+`
FROM clusters c, kinds k, objects o
WHERE o.kind_id = k.id AND o.cluster_id = c.id
  AND c.name = ? AND k.api_group = ? AND k.version = ? AND k.resource = ? AND o.namespace = ? AND o.name = ?`,
			cluster, resource.Group, resource.Version, resource.Resource, namespace, name)
		var original []byte
		err := t.tx.QueryRowContext(ctx, find.text.String(), find.args...).Scan(
			&f.ID, &f.Cluster, &f.Kind.Group, &f.Kind.Version, &f.Kind.Kind, &f.Resource, &f.JSON, &original)
		f.JSON = served(f.JSON, original)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		return cmp.Or(err, s.bounds.charge(len(f.JSON)))
	})
	return f, err
}

// HasCluster reports whether a cluster is known.
func (s *Store) HasCluster(ctx context.Context, name string) (has bool, err error) {
	err = s.reading(ctx, func(t *transaction) error {
		n, err := value[int](ctx, t, t.sql("SELECT COUNT(*) FROM clusters WHERE name = ?", name))
		has = n > 0
		return err
	})
	return has, err
}

// Clusters returns the names of all clusters.
func (s *Store) Clusters(ctx context.Context) (names []string, err error) {
	err = s.reading(ctx, func(t *transaction) error {
		names, err = t.clusterNames(ctx)
		return err
	})
	return names, err
}

func (t *transaction) clusterNames(ctx context.Context) (names []string, err error) {
	err = t.each(ctx, t.sql("SELECT name FROM clusters ORDER BY name"), func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

// searching is reading for what may take long. It waits while others of that take the connections for it.
func (s *Store) searching(ctx context.Context, do func(*transaction) error) error {
	return s.inTime(ctx, func(ctx context.Context) error {
		select {
		case s.searches <- struct{}{}:
			defer func() { <-s.searches }()
			return s.readOnce(ctx, do)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// reading runs a function in a transaction that reads one state of the database.
func (s *Store) reading(ctx context.Context, do func(*transaction) error) error {
	return s.inTime(ctx, func(ctx context.Context) error { return s.readOnce(ctx, do) })
}

// inTime calls read, which may take as long as a search may.
func (s *Store) inTime(ctx context.Context, read func(context.Context) error) error {
	defer measure(reads)()
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err := read(limited)
	if err != nil && ctx.Err() == nil && (limited.Err() != nil || tookTooLong(err)) {
		err = errors.Join(ErrTimeout, err)
	}
	return err
}

func (s *Store) readOnce(ctx context.Context, do func(*transaction) error) error {
	options := &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
	if s.dialect == sqlite {
		options.Isolation = sql.LevelDefault // it has no other
	}
	tx, err := s.read.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	t := &transaction{s.dialect, tx}
	if err := t.limitWork(ctx); err != nil {
		return err
	}
	return do(t)
}

// limitWork sets what a search may take of PostgreSQL. A server whose client has gone away would work on. One that believes in millions of rows has other
// processes help, and compiles the statement: that costs more than most searches, which read an index and few rows. Of 1,000,000 objects, it finds 500 of
// 12,000 with a label in 26 ms rather than 62.
func (t *transaction) limitWork(ctx context.Context) error {
	switch t.dialect {
	case sqlite:
		return nil // it stops with the context
	case mysqlFamily:
		// The first comment is for MariaDB only, and the second for MySQL only.
		seconds := int(statementTimeout.Seconds())
		_, err := t.exec(ctx, t.sql(fmt.Sprintf("SET /*M!100101 max_statement_time = %d, */ /*!50708 max_execution_time = %d, */ @search = 1", seconds, 1000*seconds)))
		return err
	}
	_, err := t.exec(ctx, t.sql("SELECT set_config('statement_timeout', ?, true), set_config('work_mem', ?, true),"+
		" set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)", statementTimeout.String(), workMemory))
	return err
}

// shareWork lets other processes of PostgreSQL help with a search for fields, or by the order of fields, because that unpacks many objects to compare them.
func (t *transaction) shareWork(ctx context.Context, b *search) error {
	byFields := slices.ContainsFunc(b.q.Order, func(o query.Order) bool { return len(o.Path) > 0 })
	if t.dialect != postgres || len(b.q.Fields) == 0 && !byFields {
		return nil
	}
	_, err := t.exec(ctx, t.sql("SET LOCAL max_parallel_workers_per_gather TO DEFAULT"))
	return err
}

// KindIDs returns the kinds that patterns describe and that a cluster has, for Transitions. An ID never stands for another kind.
func (s *Store) KindIDs(ctx context.Context, patterns []schema.GroupVersionResource) (ids []int64, err error) {
	err = s.reading(ctx, func(t *transaction) error {
		ids, err = t.kindIDs(ctx, patterns)
		return err
	})
	return ids, err
}

// kindIDs returns the kinds that patterns describe and that a cluster has.
func (t *transaction) kindIDs(ctx context.Context, patterns []schema.GroupVersionResource) (ids []int64, err error) {
	find := t.sql("SELECT k.id FROM kinds k WHERE EXISTS (SELECT 1 FROM streams s WHERE s.kind_id = k.id)")
	for i, p := range patterns {
		find.text.WriteString(separator(i, " AND (", " OR "))
		find.add("(k.api_group = ?", p.Group)
		if p.Version != "" {
			find.add(" AND k.version = ?", p.Version)
		}
		if p.Resource != "" {
			find.add(" AND k.resource = ?", p.Resource)
		}
		find.text.WriteByte(')')
	}
	if len(patterns) > 0 {
		find.text.WriteByte(')')
	}
	return t.ids(ctx, find)
}

// resourcesOf returns the resources of kinds, if a field of a search means something else of some of them.
func (t *transaction) resourcesOf(ctx context.Context, b *search) (map[int64]schema.GroupResource, error) {
	if !slices.ContainsFunc(b.q.Fields, func(f query.Field) bool { return len(f.ComputedKinds()) > 0 }) {
		return nil, nil
	}
	all := map[int64]schema.GroupResource{}
	err := t.each(ctx, t.sql("SELECT k.id, k.api_group, k.resource FROM kinds k"), func(scan func(...any) error) error {
		var id int64
		var resource schema.GroupResource
		err := scan(&id, &resource.Group, &resource.Resource)
		all[id] = resource
		return err
	})
	return all, err
}

// noClusters stands for none.
var noClusters = []int64{math.MinInt64}

// clusterIDs returns the clusters of a choice, or nil for all.
func (t *transaction) clusterIDs(ctx context.Context, c query.Choice) ([]int64, error) {
	if c.Empty() {
		return nil, nil
	}
	find := t.sql("SELECT c.id FROM clusters c WHERE 1 = 1")
	choose(find, "c.name", c)
	ids, err := t.ids(ctx, find)
	if len(ids) == 0 {
		ids = noClusters
	}
	return ids, err
}

func (t *transaction) ids(ctx context.Context, find *statement) (ids []int64, err error) {
	err = t.each(ctx, find, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}
