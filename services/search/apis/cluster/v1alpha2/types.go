// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 has the kinds of the API group cluster.clusterpedia.io: which clusters search copies, and which of their resources.
// Names and fields are those of Clusterpedia 0.9.
//
// controller-gen makes the CustomResourceDefinitions of the types, with their comments as descriptions.
//
// +groupName=cluster.clusterpedia.io
package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of this package.
var GroupVersion = schema.GroupVersion{Group: "cluster.clusterpedia.io", Version: "v1alpha2"}

// PediaCluster is a cluster whose objects search copies.
//
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=".status.conditions[?(@.type == 'Ready')].status"
// +kubebuilder:printcolumn:name=Version,type=string,JSONPath=".status.version"
// +kubebuilder:printcolumn:name=APIServer,type=string,JSONPath=".status.apiserver"
// +kubebuilder:printcolumn:name=Validated,type=string,priority=10,JSONPath=".status.conditions[?(@.type == 'Validated')].reason"
// +kubebuilder:printcolumn:name=SynchroRunning,type=string,priority=10,JSONPath=".status.conditions[?(@.type == 'SynchroRunning')].reason"
// +kubebuilder:printcolumn:name=ClusterHealthy,type=string,priority=10,JSONPath=".status.conditions[?(@.type == 'ClusterHealthy')].reason"
// +kubebuilder:printcolumn:name=ShardingName,type=string,priority=10,JSONPath=".status.shardingName"
type PediaCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterSpec `json:"spec"`
	// +optional
	Status ClusterStatus `json:"status"`
}

// ClusterSpec says how to reach a cluster, and what to copy.
type ClusterSpec struct {
	// Kubeconfig of the cluster. It replaces the fields below.
	//
	// +kubebuilder:validation:MaxLength=349528
	Kubeconfig []byte `json:"kubeconfig,omitempty"`
	// URL of the API server.
	APIServer string `json:"apiserver,omitempty"`
	// Bearer token.
	//
	// +kubebuilder:validation:MaxLength=349528
	TokenData []byte `json:"tokenData,omitempty"`
	// CA of the API server, PEM. Without it, the certificate is not checked.
	//
	// +kubebuilder:validation:MaxLength=349528
	CAData []byte `json:"caData,omitempty"`
	// Client certificate, PEM.
	//
	// +kubebuilder:validation:MaxLength=349528
	CertData []byte `json:"certData,omitempty"`
	// Key of the client certificate, PEM.
	//
	// +kubebuilder:validation:MaxLength=349528
	KeyData []byte `json:"keyData,omitempty"`
	// Secrets with credentials, which count if there are none beside them. They are in the namespace that the flag --secret-namespace of
	// search names. The annotation tripod-k8s.io/pediaclusters of each lists what may use it, as NAME=URL of a PediaCluster and its API
	// server, or NAME for a kubeconfig. Without a kubeconfig, ca is required.
	AuthenticationFrom *Authentication `json:"authenticationFrom,omitempty"`

	// Resources to copy.
	SyncResources []GroupResources `json:"syncResources"`
	// Copies all custom resources, too.
	SyncAllCustomResources bool `json:"syncAllCustomResources,omitempty"`
	// Name of a ClusterSyncResources with more resources.
	SyncResourcesRefName string `json:"syncResourcesRefName,omitempty"`

	// Copies only the objects in these namespaces, and none outside of namespaces. Search then needs Roles in these namespaces, and no
	// ClusterRole.
	//
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitempty"`

	// With this, even if it is empty, the RBAC of the cluster itself counts, too. A reader finds what the cluster would let a user of the
	// same name read.
	MemberRBAC *MemberRBAC `json:"memberRBAC,omitempty"`

	// Accepted, and without effect.
	ShardingName string `json:"shardingName,omitempty"`
}

// MemberRBAC says which user of a cluster a reader is. By default, readers have the same names there.
type MemberRBAC struct {
	// CEL expression for the user name of a reader in this cluster, such as 'corp:' + user.username. The variable user has username, uid,
	// groups and extra.
	//
	// +kubebuilder:validation:MaxLength=1024
	Username string `json:"username,omitempty"`
	// CEL expression for the groups of a reader in this cluster, such as user.groups.
	//
	// +kubebuilder:validation:MaxLength=1024
	Groups string `json:"groups,omitempty"`
}

// SecretAnnotation is the annotation of a Secret that lists the PediaClusters which may use it, and for which server: NAME=URL, with commas
// in between. NAME is enough for a Secret with a kubeconfig, which has the server itself.
const SecretAnnotation = "tripod-k8s.io/pediaclusters"

// StandardSecretNamespace is the namespace of these Secrets by default.
const StandardSecretNamespace = "tripod-search"

// RenewAnnotation is the annotation of such a Secret that lets search renew the token in it, if it is "true". The token is that of a
// service account which may create tokens for itself.
const RenewAnnotation = "tripod-k8s.io/renew-token"

// Authentication names the Secrets with the credentials of a cluster. Kubeconfig replaces the other fields, which need CA. Each Secret must
// have SecretAnnotation.
type Authentication struct {
	Kubeconfig *SecretKey `json:"kubeconfig,omitempty"`
	CA         *SecretKey `json:"ca,omitempty"`
	Token      *SecretKey `json:"token,omitempty"`
	Cert       *SecretKey `json:"cert,omitempty"`
	Key        *SecretKey `json:"key,omitempty"`
}

// SecretKey names a value in a Secret. Its namespace is that of the flag --secret-namespace.
type SecretKey struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// GroupResources are resources of a group.
type GroupResources struct {
	// API group, empty for the core group, or * for all.
	Group string `json:"group"`
	// Versions to copy. By default, that is the one which the cluster prefers.
	Versions []string `json:"versions,omitempty"`
	// Plural names, or * for all. A wildcard includes no Secrets.
	//
	// +kubebuilder:validation:MinItems=1
	Resources []string `json:"resources"`
	// Plural names of the group, or * for all: events about these objects are copied and stay for a day. A search with inject-events
	// returns them.
	EventsInvolvedResources []string `json:"eventsInvolvedResources,omitempty"`
}

// ClusterSyncResources names resources to copy, for several clusters.
//
// +kubebuilder:resource:scope=Cluster,path=clustersyncresources
type ClusterSyncResources struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterSyncResourcesSpec `json:"spec"`
}

// ClusterSyncResourcesSpec has the resources.
type ClusterSyncResourcesSpec struct {
	// Resources to copy.
	SyncResources []GroupResources `json:"syncResources"`
}

// Types of conditions.
const (
	Validated      = "Validated"
	SynchroRunning = "SynchroRunning"
	ClusterHealthy = "ClusterHealthy"
	Ready          = "Ready"
	// Fresh is not of Clusterpedia. It is false while a resource was not synced for long, or its first list is not complete.
	Fresh = "Fresh"
	// WithinLimits is not of Clusterpedia. It is false while the cluster sends or has more than search takes, and names the limit and the
	// resource.
	WithinLimits = "WithinLimits"
	// TokenRenewed is not of Clusterpedia. It is false while search cannot renew the token in a Secret with RenewAnnotation.
	TokenRenewed = "TokenRenewed"
	// RBACRead is not of Clusterpedia. It is false while an RBAC object of a cluster with memberRBAC cannot be read, which closes its
	// namespace or the cluster.
	RBACRead = "RBACRead"
)

// Stale is the reason of the condition Fresh if all first lists are complete, and a resource was not synced for long.
const Stale = "Stale"

// ClusterStatus is what search knows of a cluster.
type ClusterStatus struct {
	APIServer string `json:"apiserver,omitempty"`
	Version   string `json:"version,omitempty"`
	// Of Clusterpedia. Search keeps it, and writes none.
	ShardingName  string             `json:"shardingName,omitempty"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
	SyncResources []GroupStatus      `json:"syncResources,omitempty"`

	// Not of Clusterpedia: POLICY/NAMESPACE if a ClusterImportPolicy makes the PediaCluster of a source in a namespace. All of them have one
	// share of what search has for clusters. Without it, a PediaCluster has a share of its own. Search writes it.
	Party string `json:"party,omitempty"`
}

// GroupStatus is the state of the resources of a group.
type GroupStatus struct {
	Group     string           `json:"group"`
	Resources []ResourceStatus `json:"resources"`
}

// ResourceStatus is the state of a resource.
type ResourceStatus struct {
	Name           string          `json:"name"`
	Kind           string          `json:"kind"`
	Namespaced     bool            `json:"namespaced"`
	SyncConditions []SyncCondition `json:"syncConditions"`
}

// SyncCondition is the state of a version of a resource.
type SyncCondition struct {
	Version     string `json:"version"`
	SyncVersion string `json:"syncVersion,omitempty"`
	// Of Clusterpedia. Search writes none.
	SyncResource   string `json:"syncResource,omitempty"`
	StorageVersion string `json:"storageVersion,omitempty"`
	// Of Clusterpedia. Search writes none.
	StorageResource    string      `json:"storageResource,omitempty"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
	InitialListPhase   bool        `json:"initialListPhase,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}
