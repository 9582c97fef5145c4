// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the kinds of the API group policy.clusterpedia.io: how PediaClusters are made of other objects. Names and fields are
// those of Clusterpedia 0.9.
//
// controller-gen makes the CustomResourceDefinitions of the types, with their comments as descriptions.
//
// +groupName=policy.clusterpedia.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of this package.
var GroupVersion = schema.GroupVersion{Group: "policy.clusterpedia.io", Version: "v1alpha1"}

// Kinds of this package.
const (
	PolicyKind    = "ClusterImportPolicy"
	LifecycleKind = "PediaClusterLifecycle"
)

// Types of conditions. The first two are those of a ClusterImportPolicy, the others those of a PediaClusterLifecycle.
const (
	Validated   = "Validated"
	Reconciling = "Reconciling"
	Created     = "Created"
	Updating    = "Updating"
)

// ClusterImportPolicy makes PediaClusters of other objects.
//
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Validated,type=string,JSONPath=".status.conditions[?(@.type == 'Validated')].reason"
// +kubebuilder:printcolumn:name=Reconciling,type=string,JSONPath=".status.conditions[?(@.type == 'Reconciling')].reason"
type ClusterImportPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterImportPolicySpec `json:"spec"`
	// +optional
	Status PolicyStatus `json:"status"`
}

// ClusterImportPolicySpec says which objects are sources, and what is made of them: a PediaClusterLifecycle of each.
type ClusterImportPolicySpec struct {
	// Objects of which PediaClusters are made.
	Source SourceType `json:"source"`
	// More objects that templates read, as .references.KEY. Later ones may read those before them.
	//
	// +listType=map
	// +listMapKey=key
	References []PolicyReference `json:"references,omitempty"`
	// Template of the name of the PediaCluster, which may read .source.
	NameTemplate string `json:"nameTemplate"`
	Conversion   `json:",inline"`
}

// SourceType names the resource of sources.
type SourceType struct {
	// API group, empty for the core group.
	Group string `json:"group"`
	// Versions that may be read. By default, any may.
	Versions []string `json:"versions,omitempty"`
	// Plural name.
	Resource string `json:"resource"`
	// Template that makes true of an object that counts. By default, all count.
	SelectorTemplate string `json:"selectorTemplate,omitempty"`
}

// Reference is one more object that templates read.
type Reference struct {
	// Name of the object in templates.
	Key string `json:"key"`
	// API group, empty for the core group.
	Group string `json:"group"`
	// Plural name.
	Resource string `json:"resource"`
	// Template of the namespace.
	NamespaceTemplate string `json:"namespaceTemplate,omitempty"`
	// Template of the name.
	NameTemplate string `json:"nameTemplate"`
}

// PolicyReference is a reference of a ClusterImportPolicy.
type PolicyReference struct {
	Reference `json:",inline"`
	// Versions that may be read. By default, any may.
	Versions []string `json:"versions,omitempty"`
}

// LifecycleReference is a reference of a PediaClusterLifecycle.
type LifecycleReference struct {
	Reference `json:",inline"`
	// Version that is read.
	Version string `json:"version"`
}

// Conversion makes a PediaCluster of a source and its references.
type Conversion struct {
	// Template of the PediaCluster, which may read .source and .references.
	Template string `json:"template"`
	// Template that makes true when the PediaCluster may be created.
	CreationCondition string `json:"creationCondition"`
}

// PolicyStatus is the state of a ClusterImportPolicy.
type PolicyStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PediaClusterLifecycle makes the PediaCluster of its name. A ClusterImportPolicy creates it.
//
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Created,type=string,JSONPath=".status.conditions[?(@.type == 'Created')].reason"
// +kubebuilder:printcolumn:name=Updating,type=string,JSONPath=".status.conditions[?(@.type == 'Updating')].reason"
type PediaClusterLifecycle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec LifecycleSpec `json:"spec"`
	// +optional
	Status LifecycleStatus `json:"status"`
}

// LifecycleSpec says what the PediaCluster is made of.
type LifecycleSpec struct {
	// Object of which the PediaCluster is made.
	Source Object `json:"source"`
	// More objects that templates read, as .references.KEY. Later ones may read those before them.
	//
	// +listType=map
	// +listMapKey=key
	References []LifecycleReference `json:"references,omitempty"`
	Conversion `json:",inline"`
}

// Object names an object.
type Object struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupVersionResource returns the resource of the object.
func (o Object) GroupVersionResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: o.Group, Version: o.Version, Resource: o.Resource}
}

// LifecycleStatus is the state of a PediaClusterLifecycle.
type LifecycleStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Objects that the references name now.
	References []Object `json:"references,omitempty"`
}
