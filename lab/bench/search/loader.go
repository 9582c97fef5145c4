// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	searchmember "github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// The loader writes the many objects into a database as search would, without its members in between: in its batches, and with the same code. It makes the
// indexes at the end, which is what costs most of a first copy.

// loaded is what loading took. It is the comment of the database.
type loaded struct {
	At                   time.Time
	Seconds, PostgresCPU float64
}

// manyDatabase returns the database with so many objects, which it fills unless -data has it already.
func (b *benchmark) manyDatabase(ctx context.Context, apps int) (name string, l loaded, err error) {
	name = fmt.Sprintf("many_%d_of_%d", apps*appSize*b.clusters, b.clusters)
	var comment sql.NullString
	err = b.postgres.Admin.QueryRowContext(ctx, "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = $1", name).Scan(&comment)
	if err == nil {
		return name, l, json.Unmarshal([]byte(comment.String), &l)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return "", l, err
	}
	const unfinished = "loading"
	db, err := b.database(unfinished)
	if err != nil {
		return "", l, err
	}
	l.At = time.Now()
	before, err := b.postgresCPU()
	if err == nil {
		err = b.load(ctx, b.postgres.URL(unfinished), db, apps)
	}
	after, failed := b.postgresCPU()
	if err := errors.Join(err, failed, db.Close()); err != nil {
		return "", l, fmt.Errorf("load many objects: %w", err)
	}
	l.Seconds, l.PostgresCPU = time.Since(l.At).Seconds(), (after - before).Seconds()
	text, err := json.Marshal(l)
	if err != nil {
		return "", l, err
	}
	for _, statement := range []string{"ALTER DATABASE " + unfinished + " RENAME TO " + name, fmt.Sprintf("COMMENT ON DATABASE %s IS '%s'", name, text)} {
		if _, err := b.postgres.Admin.ExecContext(ctx, statement); err != nil {
			return "", l, err
		}
	}
	return name, l, nil
}

// load fills an empty database.
func (b *benchmark) load(ctx context.Context, location string, db *sql.DB, apps int) error {
	s, err := store.Open(location)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // all is written
	if err := s.Migrate(ctx); err != nil {
		return err
	}
	indexes, err := dropIndexes(ctx, db)
	if err != nil {
		return err
	}
	began := time.Now()
	group, loading := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	for n := range min(b.clusters, written) {
		for path, kind := range fakeKinds {
			group.Go(func() error { return loadStream(loading, s, n, apps, path, kind) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := copyClusters(ctx, s, db, b.clusters, apps); err != nil {
		return err
	}
	logf("%d objects are written after %.0f s", apps*appSize*b.clusters, time.Since(began).Seconds())
	group, loading = errgroup.WithContext(ctx)
	group.SetLimit(members)
	for _, index := range indexes {
		group.Go(func() error { return createIndex(loading, db, index) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM ANALYZE")
	return err
}

// written is how many clusters are written with the code of search. PostgreSQL copies their rows for all others, without a history.
const written = 10

// copyClusters makes the clusters that are not written.
func copyClusters(ctx context.Context, s *store.Store, db *sql.DB, clusters, apps int) error {
	for n := written; n < clusters; n++ {
		for path, kind := range fakeKinds {
			stream, err := s.OpenStream(ctx, fakeName(n), kind.storeKind(path))
			if err == nil {
				err = s.Sweep(ctx, stream, 1, kind.version(apps))
			}
			if err != nil {
				return err
			}
		}
	}
	var last int64
	if err := db.QueryRowContext(ctx, "UPDATE revisions SET last = last * $1 RETURNING last / $1", (clusters+written-1)/written).Scan(&last); err != nil {
		return err
	}
	group, copying := errgroup.WithContext(ctx)
	group.SetLimit(members)
	for first := written; first < clusters; first += written {
		group.Go(func() error {
			for _, statement := range copies {
				if _, err := db.ExecContext(copying, statement, last, first, written); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
			logf("the members before %d are copied", first+written)
			return nil
		})
	}
	return group.Wait()
}

// copies are SQL that copies the written clusters to those from a number on. $1 is the last revision before, $2 the number, and $3 how many are written.
// Each UID begins with the number of its cluster.
var copies = []string{
	"INSERT INTO objects (id, kind_id, cluster_id, namespace, name, uid, resource_version, created_at, revision, listing, object, labels)" +
		" SELECT o.id + m.more, o.kind_id, m.to_id, o.namespace, o.name, m.uids || substr(o.uid, 9), o.resource_version, o.created_at, o.revision + m.more, o.listing," +
		" CASE WHEN o.object #> '{metadata,ownerReferences,0}' IS NULL THEN named.object ELSE" +
		" jsonb_set(named.object, '{metadata,ownerReferences,0,uid}', to_jsonb(m.uids || substr(o.object #>> '{metadata,ownerReferences,0,uid}', 9))) END, o.labels" +
		" FROM objects o JOIN " + copiedTo + " ON m.from_id = o.cluster_id," +
		" LATERAL (SELECT jsonb_set(o.object, '{metadata,uid}', to_jsonb(m.uids || substr(o.uid, 9))) AS object) named",
	"INSERT INTO owners (owner_uid, cluster_id, object_id) SELECT m.uids || substr(w.owner_uid, 9), m.to_id, w.object_id + m.more" +
		" FROM owners w JOIN " + copiedTo + " ON m.from_id = w.cluster_id",
	"UPDATE streams s SET objects = f.objects, counted = s.epoch FROM streams f JOIN " + copiedTo + " ON m.from_id = f.cluster_id" +
		" WHERE s.cluster_id = m.to_id AND s.kind_id = f.kind_id",
}

// copiedTo has from which cluster to which one rows are copied, how much more their IDs are, and how UIDs begin.
const copiedTo = "(SELECT f.id AS from_id, t.id AS to_id, CAST($1 AS bigint) * (CAST($2 AS int) / CAST($3 AS int)) AS more, lpad(to_hex(n + CAST($2 AS int)), 8, '0') AS uids" +
	" FROM generate_series(0, CAST($3 AS int) - 1) n JOIN clusters f ON f.name = 'member-' || n JOIN clusters t ON t.name = 'member-' || (n + CAST($2 AS int))) m"

// loadStream writes all objects of a resource of a cluster.
func loadStream(ctx context.Context, s *store.Store, cluster, apps int, path string, kind fakeKind) error {
	const batchSize = 500 // as in search
	name := fakeName(cluster)
	as := kind.storeKind(path)
	stream, err := s.OpenStream(ctx, name, as)
	if err != nil {
		return err
	}
	batch := store.Batch{Listing: 1}
	for n := range apps * kind.each {
		text, err := json.Marshal(kind.at(cluster, n))
		if err != nil {
			return err
		}
		object, err := searchmember.NewObject(name, as, text)
		if err != nil {
			return err
		}
		if batch.Changes = append(batch.Changes, store.Change{Object: object}); len(batch.Changes) < batchSize && n < apps*kind.each-1 {
			continue
		}
		if err := s.Write(ctx, stream, batch); err != nil {
			return err
		}
		batch.Changes = nil
	}
	return s.Sweep(ctx, stream, batch.Listing, kind.version(apps))
}

// storeKind returns the kind that search makes of discovery.
func (k fakeKind) storeKind(path string) streams.Kind {
	steps := strings.Split(path, "/")
	resource := schema.GroupVersionResource{Version: "v1", Resource: steps[len(steps)-1]}
	if len(steps) == 5 { // /apis/GROUP/VERSION/RESOURCE
		resource.Group = steps[2]
	}
	return streams.Kind{GroupVersionResource: resource, Name: k.name, Namespaced: true}
}

// at returns the n-th object of a cluster.
func (k fakeKind) at(cluster, n int) metav1.Object {
	object := k.object(app{cluster, n / k.each}, n%k.each).(metav1.Object)
	object.SetResourceVersion(fmt.Sprint(n + 1))
	return object
}

// version returns the resourceVersion of the list of all objects.
func (k fakeKind) version(apps int) string { return fmt.Sprint(apps * k.each) }

// index is an index that no constraint needs.
type index struct{ name, definition string }

// dropIndexes removes the indexes that no constraint needs.
func dropIndexes(ctx context.Context, db *sql.DB) (dropped []index, err error) {
	rows, err := db.QueryContext(ctx, `SELECT indexname, indexdef FROM pg_indexes
WHERE schemaname = 'public' AND tablename IN ('objects', 'owners') AND indexname NOT IN (SELECT conname FROM pg_constraint) ORDER BY indexdef LIKE '%jsonb_path_ops%' DESC`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err has it
	for rows.Next() {
		var one index
		if err := rows.Scan(&one.name, &one.definition); err != nil {
			return nil, err
		}
		dropped = append(dropped, one)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, one := range dropped {
		if _, err := db.ExecContext(ctx, "DROP INDEX "+one.name); err != nil {
			return nil, err
		}
	}
	return dropped, nil
}

func createIndex(ctx context.Context, db *sql.DB, one index) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	began := time.Now()
	for _, statement := range []string{"SET maintenance_work_mem = '2GB'", one.definition} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	logf("the index %s is made after %.0f s", one.name, time.Since(began).Seconds())
	return nil
}
