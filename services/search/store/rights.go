// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Rights are what the RBAC objects of clusters say, in the version v1, if a cluster has a policy of rights. Each transaction that changes either raises
// one number, their generation. So a transaction that reads objects sees which rights are in force with them.

// rightsGeneration returns the generation of the rights that a transaction sees.
func (t *transaction) rightsGeneration(ctx context.Context) (int64, error) {
	return value[int64](ctx, t, t.sql("SELECT generation FROM rights WHERE id = 1"))
}

// A generation may rise although the rights are the same, such as when a replica opens a stream. The revision of the rights is that of the last transaction that may have
// changed them. Watches that were away ask for it.

// dateRights sets the revision of the rights to the last one, which has to be one of this transaction.
func (t *transaction) dateRights(ctx context.Context) error {
	_, err := t.exec(ctx, t.sql(dateRights+" WHERE id = 1"))
	return err
}

// dateRightsOf does the same if a stream has RBAC objects of a cluster whose RBAC decides something.
func (t *transaction) dateRightsOf(ctx context.Context, stream *Stream) error {
	if !stream.rights {
		return nil
	}
	_, err := t.exec(ctx, t.sql(dateRights+" WHERE id = 1 AND EXISTS (SELECT 1 FROM cluster_rights WHERE cluster_id = ?)", stream.clusterID))
	return err
}

const dateRights = "UPDATE rights SET revision = (SELECT last FROM revisions WHERE id = 1)"

// changeAllRights is for a policy or a cluster that comes or goes.
func (t *transaction) changeAllRights(ctx context.Context) error {
	if err := t.changeRights(ctx); err != nil {
		return err
	}
	return t.dateRights(ctx)
}

// RightsRevision returns the revision since which the rights are what they are.
func (s *Store) RightsRevision(ctx context.Context) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = s.read.QueryRowContext(ctx, "SELECT revision FROM rights WHERE id = 1").Scan(&revision)
	return revision, err
}

// changeRights raises the generation. Call it after revisions, so that all writers lock in the same order.
func (t *transaction) changeRights(ctx context.Context) error {
	_, err := t.exec(ctx, t.sql("UPDATE rights SET generation = generation + 1 WHERE id = 1"))
	return err
}

// changeRightsOf raises the generation if a stream has RBAC objects.
func (t *transaction) changeRightsOf(ctx context.Context, stream *Stream) error {
	if !stream.rights {
		return nil
	}
	if err := t.changeRights(ctx); err != nil {
		return err
	}
	generation, err := t.rightsGeneration(ctx)
	if err != nil {
		return err
	}
	value := "excluded.generation"
	if t.dialect == mysqlFamily {
		value = "VALUES(generation)"
	}
	_, err = t.exec(ctx, t.sql("INSERT INTO stream_rights (stream_id, generation) VALUES (?, ?)"+t.onConflict("stream_id")+"generation = "+value, stream.id, generation))
	return err
}

// SetRights keeps the policy of rights of a cluster. Without one, the RBAC objects of the cluster decide nothing.
func (s *Store) SetRights(ctx context.Context, cluster, policy string) error {
	return s.within(ctx, func(t *transaction) error {
		if _, err := t.revisions(ctx, 1); err != nil {
			return err
		}
		if err := t.changeAllRights(ctx); err != nil {
			return err
		}
		if policy == "" {
			_, err := t.exec(ctx, t.sql("DELETE FROM cluster_rights WHERE cluster_id IN (SELECT id FROM clusters WHERE name = ?)", cluster))
			return err
		}
		id, err := t.clusterID(ctx, cluster)
		if err != nil {
			return err
		}
		value := "excluded.policy"
		if t.dialect == mysqlFamily {
			value = "VALUES(policy)"
		}
		_, err = t.exec(ctx, t.sql("INSERT INTO cluster_rights (cluster_id, policy) VALUES (?, ?)"+t.onConflict("cluster_id")+"policy = "+value, id, policy))
		return err
	})
}

// RightsPolicies returns the policies of rights by cluster.
func (s *Store) RightsPolicies(ctx context.Context) (policies map[string]string, err error) {
	err = s.reading(ctx, func(t *transaction) error {
		policies, err = t.rightsPolicies(ctx)
		return err
	})
	return policies, err
}

func (t *transaction) rightsPolicies(ctx context.Context) (map[string]string, error) {
	policies := map[string]string{}
	err := t.each(ctx, t.sql("SELECT c.name, r.policy FROM cluster_rights r JOIN clusters c ON c.id = r.cluster_id"), func(scan func(...any) error) error {
		var cluster, policy string
		err := scan(&cluster, &policy)
		policies[cluster] = policy
		return err
	})
	return policies, err
}

// RightsGeneration returns the generation of the rights now.
func (s *Store) RightsGeneration(ctx context.Context) (generation int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = s.read.QueryRowContext(ctx, "SELECT generation FROM rights WHERE id = 1").Scan(&generation)
	return generation, err
}

// RightsReading reads one state of the rights.
type RightsReading struct {
	Generation int64
	// Policies are by cluster.
	Policies map[string]string
	// Streams are those of RBAC objects of clusters that have a policy.
	Streams []RightsStream

	transaction *transaction
}

// RightsStream is a stream of RBAC objects.
type RightsStream struct {
	ID int64
	// Cluster is the name of the cluster, and Resource that of the resource, such as rolebindings.
	Cluster, Resource string
	// Generation is that of the last change.
	Generation int64
	// Listed reports whether the database has the complete list.
	Listed bool

	clusterID, kindID int64
}

// ReadRights calls a function that reads one state of the rights.
func (s *Store) ReadRights(ctx context.Context, do func(*RightsReading) error) error {
	return s.reading(ctx, func(t *transaction) error {
		r := &RightsReading{transaction: t}
		var err error
		if r.Generation, err = t.rightsGeneration(ctx); err != nil {
			return err
		}
		if r.Policies, err = t.rightsPolicies(ctx); err != nil {
			return err
		}
		find := t.sql(`SELECT s.id, c.name, k.resource, COALESCE(g.generation, 0), s.listed, s.cluster_id, s.kind_id
FROM cluster_rights r JOIN clusters c ON c.id = r.cluster_id JOIN streams s ON s.cluster_id = r.cluster_id JOIN kinds k ON k.id = s.kind_id
LEFT JOIN stream_rights g ON g.stream_id = s.id
WHERE k.api_group = ? AND k.version = ?`, rbacv1.GroupName, rbacv1.SchemeGroupVersion.Version)
		err = t.each(ctx, find, func(scan func(...any) error) error {
			var one RightsStream
			err := scan(&one.ID, &one.Cluster, &one.Resource, &one.Generation, &one.Listed, &one.clusterID, &one.kindID)
			r.Streams = append(r.Streams, one)
			return err
		})
		if err != nil {
			return err
		}
		return do(r)
	})
}

// Changes calls changed for each object of a stream whose revision is not the one that the reader has, by ID. It returns the IDs that the reader has and
// the stream has not.
func (r *RightsReading) Changes(ctx context.Context, stream RightsStream, has map[int64]int64, changed func(id, revision int64, object []byte) error) (gone []int64, err error) {
	t := r.transaction
	var ids []int64
	there := map[int64]bool{}
	find := t.sql("SELECT id, revision FROM objects WHERE kind_id = ? AND cluster_id = ?", stream.kindID, stream.clusterID)
	err = t.each(ctx, find, func(scan func(...any) error) error {
		var id, revision int64
		err := scan(&id, &revision)
		if there[id] = true; has[id] != revision {
			ids = append(ids, id)
		}
		return err
	})
	for part := range slices.Chunk(ids, rowsAtOnce) {
		if err != nil {
			return nil, err
		}
		err = t.each(ctx, list(t.sql("SELECT o.id, o.revision, o.object, "+original("o.revision")+" FROM objects o WHERE o.id IN "), part), func(scan func(...any) error) error {
			var id, revision int64
			var object, original []byte
			if err := scan(&id, &revision, &object, &original); err != nil {
				return err
			}
			return changed(id, revision, served(object, original))
		})
	}
	for id := range has {
		if !there[id] {
			gone = append(gone, id)
		}
	}
	return gone, err
}
