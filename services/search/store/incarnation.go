// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// A name may be that of one namespace today, and of another one tomorrow. Its UID tells them apart. So rights in a namespace show its past
// since it has its UID: what was there before belonged to somebody else. The table namespaces has the revision of that, also for a while of
// namespaces that are gone, whose UID is empty then. The same holds for the names of clusters, and the table clusters.

var namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// systemNamespace is the one whose UID is that of the cluster: nobody can delete it.
const systemNamespace = "kube-system"

// noteNamespace notes that a Namespace has a UID, or that it is gone or not known any more.
func (w *writer) noteNamespace(c *Change, leftOut bool) {
	if !w.stream.namespaces {
		return
	}
	uid := c.UID
	if c.Deleted || leftOut {
		uid = ""
	}
	w.namespaces = append(w.namespaces, []any{w.stream.clusterID, c.Name, uid, w.next})
}

// writeNamespaces writes what was noted.
func (w *writer) writeNamespaces(ctx context.Context) error {
	for _, row := range w.namespaces {
		if row[1] != systemNamespace || row[2] == "" {
			continue
		}
		other := w.SQL("UPDATE clusters SET since = ? WHERE id = ? AND EXISTS (SELECT 1 FROM namespaces n WHERE n.cluster_id = ? AND n.name = "+
			"? AND n.uid <> ? AND n.uid <> '')",
			row[3], w.stream.clusterID, w.stream.clusterID, systemNamespace, row[2])
		if _, err := w.Exec(ctx, other); err != nil {
			return err
		}
	}
	uid, since := w.Inserted("uid"), w.Inserted("since")
	end := w.OnConflict("cluster_id, name") + "since = CASE WHEN namespaces.uid = " + uid + " THEN namespaces.since ELSE " + since + " END, " +
		"uid = " + uid
	return w.Insert(ctx, "namespaces", []string{"cluster_id", "name", "uid", "since"}, w.namespaces, end)
}

// forgetNamespaces notes that the Namespaces are gone of which the store has no object, removedAtOnce at a time.
func (s *Store) forgetNamespaces(ctx context.Context, stream *Stream) error {
	// By an index: PostgreSQL would compare each name with each, if there are too many for its memory.
	const gone = "n.cluster_id = ? AND n.uid <> '' AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.kind_id = ? AND o.cluster_id = ? AND " +
		"o.namespace = '' AND o.name = n.name)"
	for {
		var names []string
		err := s.db.Reading(ctx, func(t *database.Tx) error {
			find := t.SQL("SELECT n.name FROM namespaces n WHERE "+gone+" ORDER BY n.name LIMIT ?", stream.clusterID, stream.kindID,
				stream.clusterID, removedAtOnce)
			return t.Each(ctx, find, func(scan func(...any) error) error {
				names = append(names, "")
				return scan(&names[len(names)-1])
			})
		})
		if err != nil || len(names) == 0 {
			return err
		}
		err = s.db.InTurn(ctx, func(t *database.Tx) (int, error) {
			if _, err := t.Revisions(ctx, 1); err != nil {
				return 0, err
			}
			if err := hold(ctx, t, stream, time.Time{}); err != nil { // so nobody has written them since
				return 0, err
			}
			set := t.SQL("UPDATE namespaces SET uid = '', since = ("+database.LastRevision+") WHERE cluster_id = ? AND name IN ", stream.clusterID)
			_, err := t.Exec(ctx, database.List(set, names))
			return len(names), err
		})
		if err != nil {
			return err
		}
	}
}

// ClusterUIDs returns what SetClusterUID was told, by the names of clusters.
func (s *Store) ClusterUIDs(ctx context.Context) (uids map[string]string, err error) {
	uids = map[string]string{}
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		return t.Each(ctx, t.SQL("SELECT name, uid FROM clusters"), func(scan func(...any) error) error {
			var name, uid string
			err := scan(&name, &uid)
			uids[name] = uid
			return err
		})
	})
	return uids, err
}

// SetClusterUID notes which cluster has a name. Before another one may have the name, call RemoveCluster.
func (s *Store) SetClusterUID(ctx context.Context, name, uid string) error {
	return s.db.Within(ctx, func(t *database.Tx) error {
		if _, err := t.Revisions(ctx, 0); err != nil {
			return err
		}
		id, err := clusterID(ctx, t, name)
		if err == nil {
			_, err = t.Exec(ctx, t.SQL("UPDATE clusters SET uid = ? WHERE id = ?", uid, id))
		}
		return err
	})
}

// incarnations say whose a state of the past was: that of the namespaces and clusters which have their names now, or of others.
type incarnations struct {
	revision int64
	// clusters are those that have been what they are since the revision or before.
	clusters map[string]*incarnation
	parts    map[partKey]*Part
}

type incarnation struct {
	id int64
	// namespaces is set if Namespaces are copied, and none was missed. Otherwise, what rights showed then counts, if they are the same now.
	namespaces bool
	sameRights bool
	// others has the namespaces of which it is known whether they have become what they are after the revision.
	others map[string]bool
}

type partKey struct {
	cluster  string
	resource schema.GroupResource
}

// incarnationsAt returns the incarnations of a revision. What they are to say about a part has to be learned first.
func incarnationsAt(ctx context.Context, t *database.Tx, revision int64) (*incarnations, error) {
	in := &incarnations{revision: revision, clusters: map[string]*incarnation{}, parts: map[partKey]*Part{}}
	find := t.SQL(`SELECT c.id, c.name, COALESCE(r.generation, 0), (SELECT COUNT(*) FROM streams s JOIN kinds k ON k.id = s.kind_id
WHERE s.cluster_id = c.id AND s.listed AND k.api_group = '' AND k.version = ? AND k.resource = ?
AND NOT EXISTS (SELECT 1 FROM unreadable_rights u WHERE u.stream_id = s.id AND u.name = ''))
FROM clusters c LEFT JOIN cluster_rights r ON r.cluster_id = c.id WHERE c.since <= ?`,
		namespacesResource.Version, namespacesResource.Resource, revision)
	return in, t.Each(ctx, find, func(scan func(...any) error) error {
		var name string
		var id, generation, streams int64
		err := scan(&id, &name, &generation, &streams)
		in.clusters[name] = &incarnation{id: id, namespaces: streams > 0, sameRights: generation <= revision, others: map[string]bool{}}
		return err
	})
}

// learn finds out about the namespaces that parts name which a reader sees now. There may be many more namespaces.
func (in *incarnations) learn(ctx context.Context, t *database.Tx, now map[partKey]*Part) error {
	var unknown [][2]any
	byID := map[int64]*incarnation{}
	for key, part := range now {
		of := in.clusters[key.cluster]
		if of == nil || part == nil || part.all {
			continue
		}
		byID[of.id] = of
		note := func(namespace string) {
			if _, known := of.others[namespace]; !known {
				of.others[namespace] = false
				unknown = append(unknown, [2]any{of.id, namespace})
			}
		}
		for _, namespace := range part.namespaces {
			note(namespace)
		}
		for _, object := range part.objects {
			note(namespaceOfObject(key.resource, object))
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

// namespaceOfObject returns the namespace of an object of a part. A Namespace is in itself.
func namespaceOfObject(resource schema.GroupResource, object [2]string) string {
	if resource == namespacesResource.GroupResource() {
		return object[1]
	}
	return object[0]
}

// part returns what a part that a reader sees now shows of the past. Of what was not learned, it shows nothing.
func (in *incarnations) part(cluster string, resource schema.GroupResource, now *Part) *Part {
	of := in.clusters[cluster]
	if of == nil || now == nil || now.all {
		return now.onlyIf(of != nil)
	}
	key := partKey{cluster, resource}
	if already, known := in.parts[key]; known {
		return already
	}
	hides := func(namespace string) bool {
		other, known := of.others[namespace]
		return other || !known || !of.namespaces && !of.sameRights
	}
	then := &Part{names: now.names, namespaces: slices.DeleteFunc(slices.Clone(now.namespaces), hides)}
	then.objects = slices.DeleteFunc(slices.Clone(now.objects), func(object [2]string) bool {
		return hides(namespaceOfObject(resource, object))
	})
	if len(then.namespaces)+len(then.names)+len(then.objects) == 0 {
		then = nil
	}
	in.parts[key] = then
	return then
}

// onlyIf returns the part, or nil.
func (p *Part) onlyIf(condition bool) *Part {
	if !condition {
		return nil
	}
	return p
}

// limitPast finds out what a search of the past may show: to readers, and of a cluster that the search is about, states of those who have
// the names now.
func limitPast(ctx context.Context, t *database.Tx, b *search) (err error) {
	if b.past == nil || b.scope == nil && !b.q.SameClusters {
		return nil
	}
	b.incarnations, err = incarnationsAt(ctx, t, b.past.revision)
	return err
}

// SameSince reports whether what a scope shows of a resource belonged to the same namespaces and clusters already at a revision. A scope
// may be nil.
func (s *Store) SameSince(ctx context.Context, revision int64, resource schema.GroupResource, clusters query.Choice) (same bool,
	err error) {
	err = s.db.Searching(ctx, func(t *database.Tx) error {
		in, err := incarnationsAt(ctx, t, revision)
		if err != nil {
			return err
		}
		names, err := clusterNames(ctx, t)
		if err != nil {
			return err
		}
		seen := map[partKey]*Part{}
		for _, name := range names {
			if clusters.Has(name) {
				seen[partKey{name, resource}] = (&search{scope: s.scope}).partNow(name, resource)
			}
		}
		err = in.learn(ctx, t, seen)
		same = true
		for key, now := range seen {
			same = same && in.part(key.cluster, resource, now).Equal(now)
		}
		return err
	})
	return same, err
}

// part returns what the reader sees of a resource in a cluster.
func (b *search) part(cluster string, resource schema.GroupResource) *Part {
	part := b.partNow(cluster, resource)
	if b.incarnations != nil {
		part = b.incarnations.part(cluster, resource, part)
	}
	return part
}

// partNow returns the same, as it is now.
func (b *search) partNow(cluster string, resource schema.GroupResource) *Part {
	if b.scope == nil {
		return Whole
	}
	return b.scope.Part(cluster, resource)
}

// learn makes part know about resources of clusters.
func learn(ctx context.Context, t *database.Tx, b *search, about ...partKey) error {
	if b.incarnations == nil {
		return nil
	}
	now := map[partKey]*Part{}
	for _, key := range about {
		now[key] = b.partNow(key.cluster, key.resource)
	}
	return b.incarnations.learn(ctx, t, now)
}

// sameClusters leaves out the clusters of a search without a scope that were others then.
func sameClusters(ctx context.Context, t *database.Tx, b *search) error {
	if b.scope != nil || b.incarnations == nil {
		return nil
	}
	var clusters []int64
	err := t.Each(ctx, t.SQL("SELECT id, name FROM clusters"), func(scan func(...any) error) error {
		var id int64
		var name string
		err := scan(&id, &name)
		if b.incarnations.clusters[name] != nil && b.q.Clusters.Has(name) {
			clusters = append(clusters, id)
		}
		return err
	})
	if b.clusters = clusters; len(clusters) == 0 {
		b.clusters = noClusters
	}
	return err
}
