// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// lastApplied repeats the whole object for kubectl apply.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

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
	}{&m})
	return m, err
}

// NewObject returns an object of a cluster as the store keeps it: with its kind, which items of lists do not have, and with the name of the cluster and
// the resourceVersion there, but without what only says who wrote which fields.
func NewObject(cluster string, kind store.Kind, text []byte) (store.Object, error) {
	m, err := readMetadata(text)
	if err != nil {
		return store.Object{}, err
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
	o.JSON, err = rewrite(cluster, kind, text, &m)
	return o, err
}

func rewrite(cluster string, kind store.Kind, text []byte, m *metadata) ([]byte, error) {
	var fields, inner map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(fields["metadata"], &inner); err != nil {
		return nil, err
	}
	annotations := m.Annotations
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, lastApplied)
	annotations[store.ClusterAnnotation] = cluster
	annotations[store.ResourceVersionAnnotation] = m.ResourceVersion // the store sets its own
	delete(inner, "managedFields")
	apiVersion, name := kind.GroupVersionKind().ToAPIVersionAndKind()
	for _, set := range []struct {
		in    map[string]json.RawMessage
		name  string
		value any
	}{{inner, "annotations", annotations}, {fields, "metadata", inner}, {fields, "apiVersion", apiVersion}, {fields, "kind", name}} {
		value, err := json.Marshal(set.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.name, err)
		}
		set.in[set.name] = value
	}
	return json.Marshal(fields)
}
