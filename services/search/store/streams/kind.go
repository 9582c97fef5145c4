// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a resource in one version, as a member serves it.
type Kind struct {
	schema.GroupVersionResource
	// Name is the kind, such as Deployment.
	Name       string
	Namespaced bool
	Details
}

// Details are what clients and tables show about a kind. Clusters may disagree about them.
type Details struct {
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
	// Columns are the printer columns of a CustomResourceDefinition, in JSON.
	Columns []byte `json:"columns,omitempty"`
}

// GroupVersionKind returns the kind with its group and version.
func (k Kind) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Name}
}

// InvolvedEvents is the kind of the stream with the events of other objects. They are not objects of their own here: they are found with
// the object that they are about, and they stay for a while when the cluster has forgotten them.
var InvolvedEvents = Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "events/involved"}, Name: "Event",
	Namespaced: true}

// IsRBAC reports whether a resource is one of those that rights are made of.
func IsRBAC(r schema.GroupVersionResource) bool {
	return r.GroupVersion() == rbacv1.SchemeGroupVersion &&
		slices.Contains([]string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}, r.Resource)
}

// DecidesRights reports whether the objects of a resource decide what readers see: RBAC objects, and Namespaces, whose UIDs say whose the
// past is.
func DecidesRights(r schema.GroupVersionResource) bool { return IsRBAC(r) || r == NamespacesResource }

// NamespacesResource is that of Namespaces, whose UIDs say whose the past is.
var NamespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
