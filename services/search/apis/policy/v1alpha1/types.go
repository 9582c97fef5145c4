// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the kinds of the API group policy.clusterpedia.io: how PediaClusters are made of other objects. Names and fields are
// those of Clusterpedia 0.9.
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

// ClusterImportPolicy makes a PediaClusterLifecycle of each source.
type ClusterImportPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterImportPolicySpec `json:"spec"`
	Status PolicyStatus            `json:"status"`
}

// ClusterImportPolicySpec says which objects are sources, and what is made of them.
type ClusterImportPolicySpec struct {
	Source     SourceType  `json:"source"`
	References []Reference `json:"references,omitempty"`
	// NameTemplate makes the name of the PediaClusterLifecycle and of the PediaCluster of a source.
	NameTemplate string `json:"nameTemplate"`
	Conversion   `json:",inline"`
}

// SourceType names the resource of sources.
type SourceType struct {
	Group string `json:"group"`
	// Versions are those that may be read. If it is empty, any may.
	Versions []string `json:"versions,omitempty"`
	Resource string   `json:"resource"`
	// SelectorTemplate makes "true" of a source that counts. If it is empty, all count.
	SelectorTemplate string `json:"selectorTemplate,omitempty"`
}

// Reference is a further object that templates read, as .references.KEY.
type Reference struct {
	Key      string `json:"key"`
	Group    string `json:"group"`
	Resource string `json:"resource"`
	// Versions are those that may be read, in a ClusterImportPolicy, and Version is the one that is read, in a PediaClusterLifecycle.
	Versions          []string `json:"versions,omitempty"`
	Version           string   `json:"version,omitempty"`
	NamespaceTemplate string   `json:"namespaceTemplate,omitempty"`
	NameTemplate      string   `json:"nameTemplate"`
}

// Conversion makes a PediaCluster of a source and its references.
type Conversion struct {
	Template string `json:"template"`
	// CreationCondition makes "true" when the PediaCluster may be created.
	CreationCondition string `json:"creationCondition"`
}

// PolicyStatus is the state of a ClusterImportPolicy.
type PolicyStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PediaClusterLifecycle makes the PediaCluster of its name, and follows the objects that it is made of.
type PediaClusterLifecycle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LifecycleSpec   `json:"spec"`
	Status LifecycleStatus `json:"status"`
}

// LifecycleSpec says what the PediaCluster is made of.
type LifecycleSpec struct {
	Source     Object      `json:"source"`
	References []Reference `json:"references,omitempty"`
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
	// References are the objects that the references name now.
	References []Object `json:"references,omitempty"`
}
