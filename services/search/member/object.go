// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// Objects are read with what will be encoding/json/v2. With encoding/json, one of 3 kB took eight times as long (205 rather than 27 µs, BenchmarkNewObject),
// which was most of what a first list cost this process.

// asSent takes JSON that is not quite right, as encoding/json does: of two fields with one name both stay, and invalid UTF-8 becomes U+FFFD.
var asSent = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// lastApplied repeats the whole object for kubectl apply.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// document is the text of an object.
type document struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   jsontext.Value `json:"metadata"`
	Rest       jsontext.Value `json:",embed"`
}

// writtenMetadata is the text of the metadata of an object.
type writtenMetadata struct {
	Annotations   map[string]string `json:"annotations"`
	ManagedFields jsontext.Value    `json:"managedFields,omitzero"`
	Rest          jsontext.Value    `json:",embed"`
}

// metadata is what the store knows of an object besides its text.
type metadata struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	CreationTimestamp *time.Time        `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	OwnerReferences   []struct {
		UID string `json:"uid"`
	} `json:"ownerReferences"`
}

// readMetadata reads the metadata of an object, for its resourceVersion.
func readMetadata(object []byte) (m metadata, err error) {
	err = json.Unmarshal(object, &struct {
		Metadata *metadata `json:"metadata"`
	}{&m}, asSent)
	return m, err
}

// NewObject returns an object of a cluster as the store keeps it: with its kind, which items of lists do not have, and with the name of the cluster and
// the resourceVersion there, but without what only says who wrote which fields.
func NewObject(cluster string, kind store.Kind, text []byte) (store.Object, error) {
	var d document
	var m metadata
	if err := json.Unmarshal(text, &d, asSent); err != nil {
		return store.Object{}, err
	}
	if len(d.Metadata) > 0 {
		if err := json.Unmarshal(d.Metadata, &m, asSent); err != nil {
			return store.Object{}, err
		}
	}
	if m.Name == "" {
		return store.Object{}, errors.New("an object without a name")
	}
	o := store.Object{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels}
	if m.CreationTimestamp != nil {
		o.CreatedAt = m.CreationTimestamp.Unix()
	}
	for _, owner := range m.OwnerReferences {
		o.Owners = append(o.Owners, owner.UID)
	}
	var err error
	d.APIVersion, d.Kind = kind.GroupVersionKind().ToAPIVersionAndKind()
	if d.Metadata, err = rewritten(d.Metadata, cluster, m.ResourceVersion); err != nil {
		return o, err
	}
	o.JSON, err = json.Marshal(&d, asSent)
	return o, err
}

// rewritten returns the text of the metadata of an object as the store keeps it.
func rewritten(text jsontext.Value, cluster, resourceVersion string) (jsontext.Value, error) {
	var m writtenMetadata
	if err := json.Unmarshal(text, &m, asSent); err != nil {
		return nil, err
	}
	m.ManagedFields = nil
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	delete(m.Annotations, lastApplied)
	m.Annotations[store.ClusterAnnotation] = cluster
	m.Annotations[store.ResourceVersionAnnotation] = resourceVersion // the store sets its own
	return json.Marshal(&m, asSent, json.Deterministic(true))
}
