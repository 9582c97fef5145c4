// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// value reads the only value of an answer.
func value[T any](ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, text string,
) (v T, err error) {
	err = db.QueryRowContext(ctx, text).Scan(&v)
	return v, err
}

// each calls a function for every row of an answer.
func each(ctx context.Context, tx *sql.Tx, text string, row func(scan func(...any) error) error) error {
	rows, err := tx.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// copiedOf returns the resources that search has of a cluster.
func (s *scene) copiedOf(ctx context.Context, cluster string) (resources []schema.GroupVersionResource, err error) {
	kinds, err := s.store.Kinds(ctx, cluster)
	for _, kind := range kinds {
		resources = append(resources, kind.GroupVersionResource)
	}
	return resources, err
}

// reading runs a function that reads one state of the database.
func (s *scene) reading(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	return do(tx)
}

// what joins the names of an object to its ID. What does not belong to an object is shown by a null.
const what = ` LEFT JOIN objects o ON o.id = x.object_id LEFT JOIN clusters c ON c.id = o.cluster_id LEFT JOIN kinds k ON k.id = o.kind_id`

const whatColumns = `COALESCE(c.name, '?'), COALESCE(k.api_group, '?'), COALESCE(k.version, '?'), COALESCE(k.resource, '?'), COALESCE(o.namespace, '?'), COALESCE(o.name, '?')`

// keyOf returns the columns of whatColumns, and how they are written.
func keyOf() (columns []any, text func() string) {
	var cluster, namespace, name string
	var resource schema.GroupVersionResource
	return []any{&cluster, &resource.Group, &resource.Version, &resource.Resource, &namespace, &name}, func() string {
		return fmt.Sprint(cluster, " ", resource, " ", namespace, "/", name)
	}
}

// stored returns what the tables have.
func (s *scene) stored(ctx context.Context) (got tables, err error) {
	got = tables{}
	err = s.reading(ctx, func(tx *sql.Tx) error {
		labels := s.storedLabels
		if s.isPostgres() {
			labels = func(context.Context, *sql.Tx, tables) error { return nil } // a column of objects has them
		}
		return errors.Join(storedStreams(ctx, tx, got), s.storedObjects(ctx, tx, got), labels(ctx, tx, got), storedOwners(ctx, tx, got), storedEvents(ctx, tx, got), storedRest(ctx, tx))
	})
	return got, err
}

func storedStreams(ctx context.Context, tx *sql.Tx, got tables) error {
	return each(ctx, tx, `SELECT COALESCE(c.name, '?'), k.api_group, k.version, k.resource, s.listed
FROM streams s LEFT JOIN clusters c ON c.id = s.cluster_id LEFT JOIN kinds k ON k.id = s.kind_id`, func(scan func(...any) error) error {
		var cluster string
		var resource schema.GroupVersionResource
		var listed bool
		err := scan(&cluster, &resource.Group, &resource.Version, &resource.Resource, &listed)
		got.add("streams", cluster, resource, listed)
		return err
	})
}

func (s *scene) storedObjects(ctx context.Context, tx *sql.Tx, got tables) error {
	labels := "'{}'"
	if s.isPostgres() {
		labels = "x.labels"
	}
	find := "SELECT " + whatColumns + ", x.uid, x.resource_version, x.created_at, x.revision, x.object, " +
		"(SELECT r.object FROM originals r WHERE r.revision = x.revision), " + labels + " FROM (SELECT objects.*, id AS object_id FROM objects) x" + what
	return each(ctx, tx, find, func(scan func(...any) error) error {
		columns, key := keyOf()
		var uid, resourceVersion string
		var created, revision int64
		var text, original, labels []byte
		if err := scan(append(columns, &uid, &resourceVersion, &created, &revision, &text, &original, &labels)...); err != nil {
			return err
		}
		if original != nil { // the database cannot compute with it as it is
			text = original
		}
		content, err := contentAt(text, revision)
		if err != nil {
			return fmt.Errorf("%s: %w", key(), err)
		}
		got.add("objects", key(), uid, resourceVersion, created, content)
		has := map[string]string{}
		if err := json.Unmarshal(labels, &has); err != nil {
			return err
		}
		for label, value := range has {
			got.add("labels", key(), label, value)
		}
		return nil
	})
}

// contentAt returns the text of an object without its revision, which it must have.
func contentAt(text []byte, revision int64) (string, error) {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &o.Object); err != nil {
		return "", err
	}
	if has := o.GetResourceVersion(); has != strconv.FormatInt(revision, 10) {
		return "", fmt.Errorf("its resourceVersion is %s at the revision %d", has, revision)
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
	return canonical(o.Object)
}

func (s *scene) storedLabels(ctx context.Context, tx *sql.Tx, got tables) error {
	return each(ctx, tx, "SELECT "+whatColumns+", x.label, x.value, COALESCE(x.kind_id = o.kind_id, FALSE) FROM labels x"+what, func(scan func(...any) error) error {
		columns, key := keyOf()
		var label, value string
		var sameKind bool
		if err := scan(append(columns, &label, &value, &sameKind)...); err != nil {
			return err
		}
		if !sameKind {
			return fmt.Errorf("the label %s of %s is of another kind", label, key())
		}
		got.add("labels", key(), label, value)
		return nil
	})
}

func storedOwners(ctx context.Context, tx *sql.Tx, got tables) error {
	find := "SELECT " + whatColumns + ", COALESCE(w.name, '?'), x.owner_uid FROM owners x" + what + " LEFT JOIN clusters w ON w.id = x.cluster_id"
	return each(ctx, tx, find, func(scan func(...any) error) error {
		columns, key := keyOf()
		var cluster, uid string
		err := scan(append(columns, &cluster, &uid)...)
		got.add("owners", key(), cluster, uid)
		return err
	})
}

func storedEvents(ctx context.Context, tx *sql.Tx, got tables) error {
	find := `SELECT COALESCE(c.name, '?'), e.uid, e.involved_kind, e.involved_namespace, e.involved_name, e.involved_uid, e.event
FROM events e LEFT JOIN clusters c ON c.id = e.cluster_id`
	return each(ctx, tx, find, func(scan func(...any) error) error {
		var cluster, uid, kind, namespace, name, of string
		var text []byte
		if err := scan(&cluster, &uid, &kind, &namespace, &name, &of, &text); err != nil {
			return err
		}
		content, err := canonical(json.RawMessage(text))
		got.add("events", cluster, uid, kind, namespace, name, of, content)
		return err
	})
}

// storedRest holds that no other table has rows that belong to nothing.
func storedRest(ctx context.Context, tx *sql.Tx) error {
	var errs []error
	for name, find := range map[string]string{
		"states of streams that do not exist":   "SELECT COUNT(*) FROM stream_states WHERE stream_id NOT IN (SELECT id FROM streams)",
		"streams without a state":               "SELECT COUNT(*) FROM streams WHERE id NOT IN (SELECT stream_id FROM stream_states)",
		"rights of streams that do not exist":   "SELECT COUNT(*) FROM unreadable_rights WHERE stream_id NOT IN (SELECT id FROM streams)",
		"namespaces of clusters that are gone":  "SELECT COUNT(*) FROM namespaces WHERE cluster_id NOT IN (SELECT id FROM clusters)",
		"policies of clusters that are unknown": "SELECT COUNT(*) FROM cluster_rights WHERE cluster_id NOT IN (SELECT id FROM clusters)",
		"OpenAPI paths without a document":      "SELECT COUNT(*) FROM openapi WHERE digest NOT IN (SELECT digest FROM documents)",
		"OpenAPI documents without a path":      "SELECT COUNT(*) FROM documents WHERE digest NOT IN (SELECT digest FROM openapi)",
		"streams whose number of objects is wrong": `SELECT COUNT(*) FROM streams s WHERE s.counted = s.epoch
AND s.objects <> (SELECT COUNT(*) FROM objects o WHERE o.kind_id = s.kind_id AND o.cluster_id = s.cluster_id)`,
		"OpenAPI paths of unknown clusters": "SELECT COUNT(*) FROM openapi WHERE cluster_id NOT IN (SELECT id FROM clusters)",
	} {
		n, err := value[int](ctx, tx, find)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d %s", n, name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
