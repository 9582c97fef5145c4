// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// A name may be that of one namespace today, and of another one tomorrow. Its UID tells them apart. So rights in a namespace show its past since it has its
// UID: what was there before belonged to somebody else. The table namespaces has the revision of that, also for a while of namespaces that are gone, whose UID
// is empty then. The same holds for the names of clusters, and the table clusters.

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
		other := w.sql("UPDATE clusters SET since = ? WHERE id = ? AND EXISTS (SELECT 1 FROM namespaces n WHERE n.cluster_id = ? AND n.name = ? AND n.uid <> ? AND n.uid <> '')",
			row[3], w.stream.clusterID, w.stream.clusterID, systemNamespace, row[2])
		if _, err := w.exec(ctx, other); err != nil {
			return err
		}
	}
	uid, since := w.inserted("uid"), w.inserted("since")
	end := w.onConflict("cluster_id, name") + "since = CASE WHEN namespaces.uid = " + uid + " THEN namespaces.since ELSE " + since + " END, uid = " + uid
	return w.insert(ctx, "namespaces", []string{"cluster_id", "name", "uid", "since"}, w.namespaces, end)
}

// forgetNamespaces notes that the Namespaces are gone which a complete list does not have.
func (t *transaction) forgetNamespaces(ctx context.Context, stream *Stream) error {
	_, err := t.exec(ctx, t.sql("UPDATE namespaces SET uid = '', since = ("+lastRevision+
		") WHERE cluster_id = ? AND uid <> '' AND name NOT IN (SELECT name FROM objects WHERE kind_id = ? AND cluster_id = ?)",
		stream.clusterID, stream.kindID, stream.clusterID))
	return err
}

// ClusterUIDs returns what SetClusterUID was told, by the names of clusters.
func (s *Store) ClusterUIDs(ctx context.Context) (uids map[string]string, err error) {
	uids = map[string]string{}
	err = s.reading(ctx, func(t *transaction) error {
		return t.each(ctx, t.sql("SELECT name, uid FROM clusters"), func(scan func(...any) error) error {
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
	return s.within(ctx, func(t *transaction) error {
		if _, err := t.revisions(ctx, 0); err != nil {
			return err
		}
		id, err := t.clusterID(ctx, name)
		if err == nil {
			_, err = t.exec(ctx, t.sql("UPDATE clusters SET uid = ? WHERE id = ?", uid, id))
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
	// namespaces is set if Namespaces are copied. Otherwise, what rights showed then counts, if they are the same now.
	namespaces bool
	sameRights bool
	// others are the namespaces that have become what they are after the revision.
	others map[string]bool
}

type partKey struct {
	cluster  string
	resource schema.GroupResource
}

// incarnationsAt returns the incarnations of a revision.
func (t *transaction) incarnationsAt(ctx context.Context, revision int64) (*incarnations, error) {
	in := &incarnations{revision: revision, clusters: map[string]*incarnation{}, parts: map[partKey]*Part{}}
	find := t.sql(`SELECT c.name, COALESCE(r.generation, 0), (SELECT COUNT(*) FROM streams s JOIN kinds k ON k.id = s.kind_id
WHERE s.cluster_id = c.id AND s.listed AND k.api_group = '' AND k.version = ? AND k.resource = ?)
FROM clusters c LEFT JOIN cluster_rights r ON r.cluster_id = c.id WHERE c.since <= ?`, namespacesResource.Version, namespacesResource.Resource, revision)
	err := t.each(ctx, find, func(scan func(...any) error) error {
		var name string
		var generation, streams int64
		err := scan(&name, &generation, &streams)
		in.clusters[name] = &incarnation{namespaces: streams > 0, sameRights: generation <= revision, others: map[string]bool{}}
		return err
	})
	if err != nil {
		return nil, err
	}
	find = t.sql("SELECT c.name, n.name FROM namespaces n JOIN clusters c ON c.id = n.cluster_id WHERE n.since > ?", revision)
	return in, t.each(ctx, find, func(scan func(...any) error) error {
		var cluster, namespace string
		err := scan(&cluster, &namespace)
		if of := in.clusters[cluster]; of != nil {
			of.others[namespace] = true
		}
		return err
	})
}

// part returns what a part that a reader sees now shows of the past.
func (in *incarnations) part(cluster string, resource schema.GroupResource, now *Part) *Part {
	of := in.clusters[cluster]
	if of == nil || now == nil || now.all {
		return now.onlyIf(of != nil)
	}
	key := partKey{cluster, resource}
	if already, known := in.parts[key]; known {
		return already
	}
	hides := func(namespace string) bool { return of.others[namespace] || !of.namespaces && !of.sameRights }
	then := &Part{names: now.names, namespaces: slices.DeleteFunc(slices.Clone(now.namespaces), hides)}
	then.objects = slices.DeleteFunc(slices.Clone(now.objects), func(object [2]string) bool {
		if resource == namespacesResource.GroupResource() { // a Namespace is in itself
			return hides(object[1])
		}
		return hides(object[0])
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

// limitPast finds out what a search of the past may show: to readers, and of a cluster that the search is about, states of those who have the names now.
func (t *transaction) limitPast(ctx context.Context, b *search) (err error) {
	if b.past == nil || b.scope == nil && !b.q.SameClusters {
		return nil
	}
	b.incarnations, err = t.incarnationsAt(ctx, b.past.revision)
	return err
}

// SameSince reports whether what a scope shows of a resource belonged to the same namespaces and clusters already at a revision. A scope may be nil.
func (s *Store) SameSince(ctx context.Context, revision int64, resource schema.GroupResource, clusters query.Choice) (same bool, err error) {
	err = s.reading(ctx, func(t *transaction) error {
		in, err := t.incarnationsAt(ctx, revision)
		if err != nil {
			return err
		}
		same = true
		return t.each(ctx, t.sql("SELECT name FROM clusters"), func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			now := Whole
			if s.scope != nil {
				now = s.scope.Part(name, resource)
			}
			same = same && (!clusters.Has(name) || in.part(name, resource, now).Equal(now))
			return err
		})
	})
	return same, err
}

// part returns what the reader sees of a resource in a cluster.
func (b *search) part(cluster string, resource schema.GroupResource) *Part {
	part := Whole
	if b.scope != nil {
		part = b.scope.Part(cluster, resource)
	}
	if b.incarnations != nil {
		part = b.incarnations.part(cluster, resource, part)
	}
	return part
}

// sameClusters leaves out the clusters of a search without a scope that were others then.
func (t *transaction) sameClusters(ctx context.Context, b *search) error {
	if b.scope != nil || b.incarnations == nil {
		return nil
	}
	var clusters []int64
	err := t.each(ctx, t.sql("SELECT id, name FROM clusters"), func(scan func(...any) error) error {
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
