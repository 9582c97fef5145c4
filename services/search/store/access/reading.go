// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// RightsReading reads one state of the rights of a cluster.
type RightsReading struct {
	// Generation is zero if the cluster has no policy.
	Generation int64
	Policy     string
	// ClusterID is another one if the cluster was removed and has come back.
	ClusterID int64
	// Listed are the resources whose lists are complete.
	Listed []string
	// Closed is why it is not known what has become of the RBAC objects, or empty.
	Closed string
	// Objects is how many RBAC objects the cluster has.
	Objects int64

	tx        *database.Tx
	resources map[int64]string
}

// RBACObject is an RBAC object of a cluster.
type RBACObject struct {
	ID                        int64
	Resource, Namespace, Name string
	JSON                      []byte
}

// ReadRights calls a function that reads one state of the rights of a cluster.
func (s *Rights) ReadRights(ctx context.Context, cluster string, do func(*RightsReading) error) error {
	return s.db.Reading(ctx, func(t *database.Tx) error {
		r := &RightsReading{tx: t, resources: map[int64]string{}}
		find := t.SQL("SELECT c.id, r.policy, r.generation FROM cluster_rights r JOIN clusters c ON c.id = r.cluster_id WHERE c.name = ?",
			cluster)
		err := t.Row(ctx, find).Scan(&r.ClusterID, &r.Policy, &r.Generation)
		if database.IsNone(err) {
			return do(r)
		}
		if err != nil {
			return err
		}
		if err := r.readStreams(ctx); err != nil {
			return err
		}
		return do(r)
	})
}

func (r *RightsReading) readStreams(ctx context.Context) error {
	t := r.tx
	find := t.SQL(`SELECT k.id, k.resource, s.listed, s.objects, COALESCE(u.reason, '') FROM streams s JOIN kinds k ON k.id = s.kind_id
LEFT JOIN unreadable_rights u ON u.stream_id = s.id AND u.namespace = '' AND u.name = ''
WHERE s.cluster_id = ? AND k.api_group = ? AND k.version = ?`,
		r.ClusterID, rbacv1.GroupName, rbacv1.SchemeGroupVersion.Version)
	err := t.Each(ctx, find, func(scan func(...any) error) error {
		var kind, objects int64
		var resource, closed string
		var listed bool
		err := scan(&kind, &resource, &listed, &objects, &closed)
		if closed != "" {
			r.Closed = resource + ": " + closed
		}
		if r.resources[kind] = resource; listed {
			r.Listed = append(r.Listed, resource)
		}
		r.Objects += objects
		return err
	})
	return err
}

// maxChanges is how many changes of all clusters are read at most to find those of RBAC objects.
const maxChanges = 10_000

// Changes calls changed for the objects that have changed after a generation, and returns the IDs of objects that are gone since. If these
// are not known, or for generation 0, it calls changed for all, and whole is true.
func (r *RightsReading) Changes(ctx context.Context, after int64, changed func(RBACObject) error) (whole bool, gone []int64, err error) {
	t := r.tx
	kinds := slices.Sorted(maps.Keys(r.resources))
	if len(kinds) == 0 {
		return true, nil, nil
	}
	known, err := r.knowsChanges(ctx, after)
	if err != nil {
		return false, nil, err
	}
	columns := "SELECT o.id, o.kind_id, o.namespace, o.name, o.object, " + database.Original("o.revision") + " FROM objects o WHERE "
	if !known {
		find := t.SQL(columns+"o.cluster_id = ? AND o.kind_id", r.ClusterID)
		database.OneOf(find, kinds)
		return true, nil, r.each(ctx, find, changed)
	}
	find := t.SQL("SELECT DISTINCT object_id FROM changes WHERE revision > ? AND cluster_id = ? AND kind_id", after, r.ClusterID)
	database.OneOf(find, kinds)
	ids, err := t.IDs(ctx, find)
	if err != nil {
		return false, nil, err
	}
	there := map[int64]bool{}
	for part := range slices.Chunk(ids, database.RowsAtOnce) {
		err := r.each(ctx, database.List(t.SQL(columns+"o.id IN "), part), func(o RBACObject) error {
			there[o.ID] = true
			return changed(o)
		})
		if err != nil {
			return false, nil, err
		}
	}
	return false, slices.DeleteFunc(ids, func(id int64) bool { return there[id] }), nil
}

// knowsChanges reports whether the history has what has changed after a revision, in few rows.
func (r *RightsReading) knowsChanges(ctx context.Context, after int64) (bool, error) {
	t := r.tx
	if after == 0 {
		return false, nil
	}
	n, err := database.Value[int64](ctx, t, t.SQL("SELECT COUNT(*) FROM revisions r, history h WHERE r.id = 1 AND h.id = 1 AND h.pruned <= "+
		"? AND r.last >= ? AND r.last - ? <= ?",
		after, after, after, maxChanges))
	return n > 0, err
}

func (r *RightsReading) each(ctx context.Context, find *database.Statement, do func(RBACObject) error) error {
	return r.tx.Each(ctx, find, func(scan func(...any) error) error {
		var o RBACObject
		var kind int64
		var original []byte
		if err := scan(&o.ID, &kind, &o.Namespace, &o.Name, &o.JSON, &original); err != nil {
			return err
		}
		o.Resource, o.JSON = r.resources[kind], database.Served(o.JSON, original)
		return do(o)
	})
}
