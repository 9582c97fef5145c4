// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// Rights are what the RBAC objects of clusters say, in the version v1, if a cluster has a policy of rights. Each transaction that changes
// those of a cluster sets the generation of the cluster to its last revision. So a transaction that reads objects sees which rights are in
// force with them, and changes in one cluster do not concern those who read another one. The table rights_changes has the last change in
// any cluster, and the last policy that came or went.

// ChangeRightsOf notes that rights have changed that a stream of RBAC objects has. Call it when the transaction has its revisions.
func ChangeRightsOf(ctx context.Context, t *database.Tx, stream *streams.Stream) error {
	changed, err := t.Exec(ctx, t.SQL("UPDATE cluster_rights SET generation = ("+database.LastRevision+") WHERE cluster_id = ?",
		stream.ClusterID))
	if err != nil || changed == 0 { // the RBAC of the cluster decides nothing
		return err
	}
	_, err = t.Exec(ctx, t.SQL("UPDATE rights_changes SET changed = ("+database.LastRevision+") WHERE id = 1"))
	return err
}

// ChangePolicies notes that a policy or a cluster has come or gone.
func ChangePolicies(ctx context.Context, t *database.Tx) error {
	_, err := t.Exec(ctx, t.SQL("UPDATE rights_changes SET changed = ("+database.LastRevision+"), removed = ("+database.LastRevision+") "+
		"WHERE id = 1"))
	return err
}

// RightsChanged returns the revision of the last change of rights in any cluster that a transaction sees.
func RightsChanged(ctx context.Context, t *database.Tx) (int64, error) {
	return database.Value[int64](ctx, t, t.SQL("SELECT changed FROM rights_changes WHERE id = 1"))
}

// RightsChangedSince reports whether rights in some clusters, or in any if none is named, may have changed after a revision.
func (s *Rights) RightsChangedSince(ctx context.Context, revision int64, clusters []string) (changed bool, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		find := t.SQL("SELECT COUNT(*) FROM rights_changes WHERE removed > ?", revision)
		n, err := database.Value[int64](ctx, t, find)
		if changed = n > 0; changed || err != nil {
			return err
		}
		find = t.SQL("SELECT COUNT(*) FROM cluster_rights r JOIN clusters c ON c.id = r.cluster_id WHERE r.generation > ?", revision)
		if len(clusters) > 0 {
			database.OneOf(find.Add(" AND c.name"), clusters)
		}
		n, err = database.Value[int64](ctx, t, find)
		changed = n > 0
		return err
	})
	return changed, err
}

// SetRights keeps the policy of rights of a cluster. Without one, the RBAC objects of the cluster decide nothing.
func (s *Rights) SetRights(ctx context.Context, cluster, policy string) error {
	return s.db.Within(ctx, func(t *database.Tx) error {
		if _, err := t.Revisions(ctx, 1); err != nil {
			return err
		}
		if err := ChangePolicies(ctx, t); err != nil {
			return err
		}
		if policy == "" {
			_, err := t.Exec(ctx, t.SQL("DELETE FROM cluster_rights WHERE cluster_id IN (SELECT id FROM clusters WHERE name = ?)", cluster))
			return err
		}
		id, err := streams.EnsureCluster(ctx, t, cluster)
		if err != nil {
			return err
		}
		put := t.SQL("INSERT INTO cluster_rights (cluster_id, policy, generation) VALUES (?, ?, ("+database.LastRevision+"))", id, policy)
		_, err = t.Exec(ctx, put.Add(t.OnConflict("cluster_id")+"policy = "+t.Inserted("policy")+", generation = "+t.Inserted("generation")))
		return err
	})
}

// RightsPolicies returns the policies of rights by cluster.
func (s *Rights) RightsPolicies(ctx context.Context) (policies map[string]string, err error) {
	policies = map[string]string{}
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		return t.Each(ctx, t.SQL("SELECT c.name, r.policy FROM cluster_rights r JOIN clusters c ON c.id = r.cluster_id"),
			func(scan func(...any) error) error {
				var cluster, policy string
				err := scan(&cluster, &policy)
				policies[cluster] = policy
				return err
			})
	})
	return policies, err
}

// Change is what a batch does to an RBAC object.
type Change struct {
	Namespace, Name string
	JSON            []byte
	Deleted         bool
	// Former is the ID of the object that the database has, or zero. Same is set if it stays as it is.
	Former int64
	Same   bool
}

// NoteChanges notes what a batch of RBAC objects does to rights, before it is written. Call it when the transaction has its revisions.
func NoteChanges(ctx context.Context, t *database.Tx, stream *streams.Stream, listing int64, changes []Change) error {
	changed, err := changesRights(ctx, t, stream, changes)
	if err != nil {
		return err
	}
	if err := noteUnreadable(ctx, t, stream, listing, changes); err != nil || !changed {
		return err
	}
	return ChangeRightsOf(ctx, t, stream)
}

// changesRights reports whether changes of RBAC objects change rights. Labels, annotations and the order of rules do not.
func changesRights(ctx context.Context, t *database.Tx, stream *streams.Stream, changes []Change) (bool, error) {
	former := map[int64]string{}
	for i := range changes {
		c := &changes[i]
		exists := c.Former != 0
		switch {
		case !exists && c.Deleted:
		case !exists || c.Deleted:
			return true, nil
		case !c.Same:
			now, err := normalizedRBAC(stream.Resource, c.JSON)
			if err != nil {
				return true, nil
			}
			former[c.Former] = now
		}
	}
	changed := false
	for part := range slices.Chunk(slices.Sorted(maps.Keys(former)), database.RowsAtOnce) {
		find := t.SQL("SELECT o.id, o.object, " + database.Original("o.revision") + " FROM objects o WHERE o.id IN ")
		err := t.Each(ctx, database.List(find, part), func(scan func(...any) error) error {
			var id int64
			var object, original []byte
			err := scan(&id, &object, &original)
			was, unreadable := normalizedRBAC(stream.Resource, database.Served(object, original))
			changed = changed || unreadable != nil || was != former[id]
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return changed, nil
}

// Unreadable is an RBAC object that cannot be read: it is wrong, or stands for one that was refused. It makes all rights of its namespace
// unknown, or those of its cluster if it has none: a binding that was narrowed would stay in force otherwise. Without a name, it stands for
// all of its resource.
type Unreadable struct {
	// Resource is that of the object, such as rolebindings.
	Resource, Namespace, Name string
	Reason                    string
}

// RefusedAnnotation says of an RBAC object that it stands for one that was refused, and why.
const RefusedAnnotation = "shadow.clusterpedia.io/refused"

// reasonOf returns why an RBAC object cannot be read.
func reasonOf(text []byte, err error) string {
	var object struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	reason := err.Error()
	if !errors.Is(err, errLargeRBAC) && json.Unmarshal(text, &object) == nil && object.Metadata.Annotations[RefusedAnnotation] != "" {
		reason = object.Metadata.Annotations[RefusedAnnotation]
	}
	return speakableReason(reason)
}

// speakableReason returns a reason as the database can have it.
func speakableReason(reason string) string {
	const most = 512
	return strings.ToValidUTF8(strings.ReplaceAll(reason[:min(len(reason), most)], "\x00", ""), "")
}

// noteUnreadable notes which RBAC objects of a batch cannot be read, and which can.
func noteUnreadable(ctx context.Context, t *database.Tx, stream *streams.Stream, listing int64, changes []Change) error {
	has, err := database.Value[int64](ctx, t, t.SQL("SELECT COUNT(*) FROM unreadable_rights WHERE stream_id = ?", stream.ID))
	if err != nil {
		return err
	}
	var rows [][]any
	var keys [][2]string
	for i := range changes {
		key := [2]string{changes[i].Namespace, changes[i].Name}
		if has > 0 {
			keys = append(keys, key)
		}
		if changes[i].Deleted {
			continue
		}
		if _, err := normalizedRBAC(stream.Resource, changes[i].JSON); err != nil {
			rows = append(rows, []any{stream.ID, key[0], key[1], listing, reasonOf(changes[i].JSON, err)})
		}
	}
	for part := range slices.Chunk(keys, database.RowsAtOnce) {
		forget := t.SQL("DELETE FROM unreadable_rights WHERE stream_id = ? AND (namespace, name) IN ", stream.ID)
		if _, err := t.Exec(ctx, database.Pairs(forget, part)); err != nil {
			return err
		}
	}
	return t.Insert(ctx, "unreadable_rights", []string{"stream_id", "namespace", "name", "listing", "reason"}, rows, "")
}

// ForgetUnreadable forgets the unreadable objects of a stream that a list does not have.
func ForgetUnreadable(ctx context.Context, t *database.Tx, stream *streams.Stream, listing int64) error {
	_, err := t.Exec(ctx, t.SQL("DELETE FROM unreadable_rights WHERE stream_id = ? AND listing <> ? AND name <> ''", stream.ID, listing))
	return err
}

// UnreadableRights returns the RBAC objects of each cluster that cannot be read, at most a few of each.
func (s *Rights) UnreadableRights(ctx context.Context) (map[string][]Unreadable, error) {
	const most = 10
	unreadable := map[string][]Unreadable{}
	err := s.db.Reading(ctx, func(t *database.Tx) error {
		find := t.SQL(`SELECT c.name, k.resource, u.namespace, u.name, u.reason
FROM (SELECT stream_id, namespace, name, reason, ROW_NUMBER() OVER (PARTITION BY stream_id ORDER BY namespace, name) AS n
  FROM unreadable_rights) u
JOIN streams s ON s.id = u.stream_id JOIN clusters c ON c.id = s.cluster_id JOIN cluster_rights r ON r.cluster_id = c.id
JOIN kinds k ON k.id = s.kind_id
WHERE u.n <= ? AND k.api_group = ? ORDER BY u.stream_id, u.namespace, u.name`, most, rbacv1.GroupName)
		return t.Each(ctx, find, func(scan func(...any) error) error {
			var cluster string
			var one Unreadable
			err := scan(&cluster, &one.Resource, &one.Namespace, &one.Name, &one.Reason)
			if len(unreadable[cluster]) < most {
				unreadable[cluster] = append(unreadable[cluster], one)
			}
			return err
		})
	})
	return unreadable, err
}

// RightsIndex says which clusters have rights, at one moment.
type RightsIndex struct {
	// Changed is the revision of the last change in any cluster.
	Changed int64
	// Generations are by cluster.
	Generations map[string]int64
}

// RightsIndex returns the generations of the rights of all clusters.
func (s *Rights) RightsIndex(ctx context.Context) (index RightsIndex, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		index.Generations = map[string]int64{}
		if index.Changed, err = RightsChanged(ctx, t); err != nil {
			return err
		}
		return t.Each(ctx, t.SQL("SELECT c.name, r.generation FROM cluster_rights r JOIN clusters c ON c.id = r.cluster_id"),
			func(scan func(...any) error) error {
				var cluster string
				var generation int64
				err := scan(&cluster, &generation)
				index.Generations[cluster] = generation
				return err
			})
	})
	return index, err
}
