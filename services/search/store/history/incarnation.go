// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// A name may be that of one namespace today, and of another one tomorrow. Its UID distinguishes them. So rights in a namespace show its
// past since it has its UID: what was there before belonged to another owner. The table namespaces has the revision of that, also for a
// while of namespaces that are gone, whose UID is empty then. The same holds for the names of clusters, and the table clusters.

// SystemNamespace is the one whose UID is that of the cluster: it cannot be deleted.
const SystemNamespace = "kube-system"

// Namespace is a name that has a UID since a revision. The UID is empty if the namespace is gone, or not known any more.
type Namespace struct {
	Name, UID string
	Since     int64
}

// WriteNamespaces notes what namespaces of the stream are.
func WriteNamespaces(ctx context.Context, t *database.Tx, stream *streams.Stream, namespaces []Namespace) error {
	rows := make([][]any, 0, len(namespaces))
	for _, of := range namespaces {
		rows = append(rows, []any{stream.ClusterID, of.Name, of.UID, of.Since})
		if of.Name != SystemNamespace || of.UID == "" {
			continue
		}
		other := t.SQL("UPDATE clusters SET since = ? WHERE id = ? AND EXISTS (SELECT 1 FROM namespaces n WHERE n.cluster_id = ? AND n.name = "+
			"? AND n.uid <> ? AND n.uid <> '')",
			of.Since, stream.ClusterID, stream.ClusterID, SystemNamespace, of.UID)
		if _, err := t.Exec(ctx, other); err != nil {
			return err
		}
	}
	uid, since := t.Inserted("uid"), t.Inserted("since")
	end := t.OnConflict("cluster_id, name") + "since = CASE WHEN namespaces.uid = " + uid + " THEN namespaces.since ELSE " + since + " END, " +
		"uid = " + uid
	return t.Insert(ctx, "namespaces", []string{"cluster_id", "name", "uid", "since"}, rows, end)
}

// ForgetNamespaces notes that the Namespaces are gone of which the store has no object, database.RemovedAtOnce at a time.
func ForgetNamespaces(ctx context.Context, db *database.DB, stream *streams.Stream) error {
	// By an index: PostgreSQL would compare each name with each, if there are too many for its memory.
	const gone = "n.cluster_id = ? AND n.uid <> '' AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.kind_id = ? AND o.cluster_id = ? AND " +
		"o.namespace = '' AND o.name = n.name)"
	for {
		var names []string
		err := db.Reading(ctx, func(t *database.Tx) error {
			find := t.SQL("SELECT n.name FROM namespaces n WHERE "+gone+" ORDER BY n.name LIMIT ?", stream.ClusterID, stream.KindID,
				stream.ClusterID, database.RemovedAtOnce)
			return t.Each(ctx, find, func(scan func(...any) error) error {
				names = append(names, "")
				return scan(&names[len(names)-1])
			})
		})
		if err != nil || len(names) == 0 {
			return err
		}
		err = db.WithinThrottled(ctx, func(t *database.Tx) (int, error) {
			if _, err := t.Revisions(ctx, 1); err != nil {
				return 0, err
			}
			if err := streams.Hold(ctx, t, stream, time.Time{}); err != nil { // so they were not written since
				return 0, err
			}
			set := t.SQL("UPDATE namespaces SET uid = '', since = ("+database.LastRevision+") WHERE cluster_id = ? AND name IN ", stream.ClusterID)
			_, err := t.Exec(ctx, database.List(set, names))
			return len(names), err
		})
		if err != nil {
			return err
		}
	}
}

// Incarnations say whose a state of the past was: that of the namespaces and clusters which have their names now, or of others.
type Incarnations struct {
	revision int64
	// clusters are those that have been what they are since the revision or before.
	clusters   map[string]*incarnation
	objectSets map[access.ClusterResource]*access.ObjectSet
}

type incarnation struct {
	id int64
	// namespaces is set if Namespaces are copied, and none was missed. Otherwise, what rights showed then counts, if they are the same now.
	namespaces bool
	sameRights bool
	// others has the namespaces of which it is known whether they have become what they are after the revision.
	others map[string]bool
}

// IncarnationsAt returns the Incarnations of a revision. What they are to say about a part has to be learned first.
func IncarnationsAt(ctx context.Context, t *database.Tx, revision int64) (*Incarnations, error) {
	in := &Incarnations{revision: revision, clusters: map[string]*incarnation{}, objectSets: map[access.ClusterResource]*access.ObjectSet{}}
	find := t.SQL(`SELECT c.id, c.name, COALESCE(r.generation, 0), (SELECT COUNT(*) FROM streams s JOIN kinds k ON k.id = s.kind_id
WHERE s.cluster_id = c.id AND s.listed AND k.api_group = '' AND k.version = ? AND k.resource = ?
AND NOT EXISTS (SELECT 1 FROM unreadable_rights u WHERE u.stream_id = s.id AND u.name = ''))
FROM clusters c LEFT JOIN cluster_rights r ON r.cluster_id = c.id WHERE c.since <= ?`,
		streams.NamespacesResource.Version, streams.NamespacesResource.Resource, revision)
	return in, t.Each(ctx, find, func(scan func(...any) error) error {
		var name string
		var id, generation, streams int64
		err := scan(&id, &name, &generation, &streams)
		in.clusters[name] = &incarnation{id: id, namespaces: streams > 0, sameRights: generation <= revision, others: map[string]bool{}}
		return err
	})
}

// Load loads the namespaces that parts name which a reader sees now. There may be many more namespaces.
func (in *Incarnations) Load(ctx context.Context, t *database.Tx, now map[access.ClusterResource]*access.ObjectSet) error {
	var unknown [][2]any
	byID := map[int64]*incarnation{}
	for key, part := range now {
		of := in.clusters[key.Cluster]
		if of == nil || part == nil || part.IsAll() {
			continue
		}
		byID[of.id] = of
		note := func(namespace string) {
			if _, known := of.others[namespace]; !known {
				of.others[namespace] = false
				unknown = append(unknown, [2]any{of.id, namespace})
			}
		}
		for _, namespace := range part.Namespaces() {
			note(namespace)
		}
		for _, object := range part.Objects() {
			note(namespaceOfObject(key.Resource, object))
		}
	}
	for chunk := range slices.Chunk(unknown, database.RowsAtOnce) {
		find := t.SQL("SELECT n.cluster_id, n.name FROM namespaces n WHERE n.since > ? AND (n.cluster_id, n.name) IN ", in.revision)
		err := t.Each(ctx, database.Pairs(find, chunk), func(scan func(...any) error) error {
			var id int64
			var namespace string
			if err := scan(&id, &namespace); err != nil {
				return err
			}
			byID[id].others[namespace] = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// namespaceOfObject returns the namespace of an object of a set. A Namespace is in itself.
func namespaceOfObject(resource schema.GroupResource, object [2]string) string {
	if resource == streams.NamespacesResource.GroupResource() {
		return object[1]
	}
	return object[0]
}

// ObjectSet returns the objects that a reader may read of the past, if now has those of the present. It allows nothing that was not
// learned.
func (in *Incarnations) ObjectSet(cluster string, resource schema.GroupResource, now *access.ObjectSet) *access.ObjectSet {
	of := in.clusters[cluster]
	if of == nil || now == nil || now.IsAll() {
		return onlyIf(now, of != nil)
	}
	key := access.ClusterResource{Cluster: cluster, Resource: resource}
	if already, known := in.objectSets[key]; known {
		return already
	}
	hides := func(namespace string) bool {
		other, known := of.others[namespace]
		return other || !known || !of.namespaces && !of.sameRights
	}
	then := now.Except(hides, func(object [2]string) bool { return hides(namespaceOfObject(resource, object)) })
	in.objectSets[key] = then
	return then
}

// onlyIf returns the set, or nil.
func onlyIf(p *access.ObjectSet, condition bool) *access.ObjectSet {
	if !condition {
		return nil
	}
	return p
}

// Has reports whether a cluster has been what it is since the revision or before.
func (in *Incarnations) Has(cluster string) bool { return in.clusters[cluster] != nil }

// KnowsNamespaces reports whether the Namespaces of a cluster are copied, and none was missed.
func (in *Incarnations) KnowsNamespaces(cluster string) bool {
	of := in.clusters[cluster]
	return of != nil && of.namespaces
}
