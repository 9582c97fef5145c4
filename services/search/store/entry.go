// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"time"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// entry is an object of an earlier state, with all that lists are sorted by.
type entry struct {
	Found
	kindID, clusterID    int64
	namespace, name      string
	uid, resourceVersion string
	// createdAt is in seconds since 1970.
	createdAt int64
	owners    []string
	// changedAt is when the object last changed between the moments of query.DiffersFrom, in milliseconds since 1970.
	changedAt int64
	// ranks are those of fields, as far as they were asked for.
	ranks map[string]query.Rank
}

// entryColumns are those of an object that is as it was, for scanEntry. The column changedAt of the state follows them.
var entryColumns = "o.id, c.name, k.api_group, k.version, k.kind, k.resource, o.object, " + database.Original("o.revision") +
	", o.kind_id, o.cluster_id, o.namespace, o.name, o.uid, o.resource_version, o.created_at"

func scanEntry(scan func(...any) error) (*entry, error) {
	e := &entry{}
	var original []byte
	err := scan(
		&e.ID, &e.Cluster, &e.Kind.Group, &e.Kind.Version, &e.Kind.Kind, &e.Resource, &e.JSON, &original, &e.kindID, &e.clusterID, &e.namespace,
		&e.name,
		&e.uid, &e.resourceVersion, &e.createdAt, &e.changedAt,
	)
	e.JSON = database.Served(e.JSON, original)
	return e, err
}

// endedColumns are those of a state that ended, for scanEnded. The column changedAt of the state follows them. The text of the object has
// the rest.
var endedColumns = "c.object_id, c.cluster, k.api_group, k.version, k.kind, k.resource, v.object, " + database.Original("v.revision") +
	", c.kind_id, c.cluster_id, c.namespace, c.name"

func scanEnded(scan func(...any) error) (*entry, error) {
	e := &entry{}
	var original []byte
	err := scan(
		&e.ID, &e.Cluster, &e.Kind.Group, &e.Kind.Version, &e.Kind.Kind, &e.Resource, &e.JSON, &original, &e.kindID, &e.clusterID, &e.namespace,
		&e.name,
		&e.changedAt,
	)
	e.JSON = database.Served(e.JSON, original)
	return e, err
}

// readText sets what only the text of a state that ended has.
func (e *entry) readText() error {
	var object struct {
		Metadata struct {
			UID               string            `json:"uid"`
			CreationTimestamp time.Time         `json:"creationTimestamp"`
			Annotations       map[string]string `json:"annotations"`
			OwnerReferences   []struct {
				UID string `json:"uid"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(e.JSON, &object); err != nil {
		return err
	}
	e.uid, e.resourceVersion = object.Metadata.UID, object.Metadata.Annotations[v1beta1.ResourceVersionAnnotation]
	if created := object.Metadata.CreationTimestamp; !created.IsZero() {
		e.createdAt = created.Unix()
	}
	for _, owner := range object.Metadata.OwnerReferences {
		e.owners = append(e.owners, owner.UID)
	}
	return nil
}

func (e *entry) subject() *query.Subject {
	return &query.Subject{Cluster: e.Cluster, Namespace: e.namespace, Name: e.name, JSON: e.JSON}
}

// rank returns the place of a field in an order.
func (e *entry) rank(path []query.Step) query.Rank {
	text := database.JSONPath(path)
	rank, known := e.ranks[text]
	if !known {
		if e.ranks == nil {
			e.ranks = map[string]query.Rank{}
		}
		rank = e.subject().RankAt(path)
		e.ranks[text] = rank
	}
	return rank
}
