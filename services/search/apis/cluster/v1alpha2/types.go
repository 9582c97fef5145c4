// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 has the kinds of the API group cluster.clusterpedia.io: which clusters search copies, and which of their resources.
// Names and fields are those of Clusterpedia 0.9.
package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of this package.
var GroupVersion = schema.GroupVersion{Group: "cluster.clusterpedia.io", Version: "v1alpha2"}

// PediaCluster is a cluster whose objects search copies.
type PediaCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec"`
	Status ClusterStatus `json:"status"`
}

// ClusterSpec says how to reach a cluster, and what to copy.
type ClusterSpec struct {
	// Kubeconfig replaces the fields up to KeyData.
	Kubeconfig []byte `json:"kubeconfig,omitempty"`
	APIServer  string `json:"apiserver,omitempty"`
	TokenData  []byte `json:"tokenData,omitempty"`
	// CAData is the CA of the API server, PEM. Without it, the certificate is not checked, as in Clusterpedia.
	CAData   []byte `json:"caData,omitempty"`
	CertData []byte `json:"certData,omitempty"`
	KeyData  []byte `json:"keyData,omitempty"`
	// AuthenticationFrom names Secrets, which count if there are no credentials beside it.
	AuthenticationFrom *Authentication `json:"authenticationFrom,omitempty"`

	SyncResources          []GroupResources `json:"syncResources"`
	SyncAllCustomResources bool             `json:"syncAllCustomResources,omitempty"`
	// SyncResourcesRefName names a ClusterSyncResources.
	SyncResourcesRefName string `json:"syncResourcesRefName,omitempty"`

	// Namespaces limits search to the objects in some namespaces. It copies nothing outside of namespaces then, and needs only Roles in
	// these.
	Namespaces []string `json:"namespaces,omitempty"`

	// MemberRBAC makes the RBAC of the cluster itself count: a reader finds what the cluster would let him read. Without it, only grants of
	// the hub count.
	MemberRBAC *MemberRBAC `json:"memberRBAC,omitempty"`
}

// MemberRBAC says who readers are in a cluster. Both fields are expressions in CEL with the variable user. By default, readers have the
// same names there.
type MemberRBAC struct {
	Username string `json:"username,omitempty"`
	Groups   string `json:"groups,omitempty"`
}

// SecretAnnotation is the annotation of a Secret that lists the PediaClusters which may use it, and for which server: NAME=URL, with commas
// in between. NAME is enough for a Secret with a kubeconfig, which has the server itself.
const SecretAnnotation = "tripod-k8s.io/pediaclusters"

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
	Group     string   `json:"group"`
	Versions  []string `json:"versions,omitempty"`
	Resources []string `json:"resources"`
	// EventsInvolvedResources are resources of the group whose events are copied, too.
	EventsInvolvedResources []string `json:"eventsInvolvedResources,omitempty"`
}

// ClusterSyncResources has resources for several clusters.
type ClusterSyncResources struct {
	Spec struct {
		SyncResources []GroupResources `json:"syncResources"`
	} `json:"spec"`
}

// Types of conditions.
const (
	Validated      = "Validated"
	SynchroRunning = "SynchroRunning"
	ClusterHealthy = "ClusterHealthy"
	Ready          = "Ready"
	// Fresh is not of Clusterpedia. It is false while a resource was not heard for long, or its first list is not complete.
	Fresh = "Fresh"
	// WithinLimits is not of Clusterpedia. It is false while the cluster sends or has more than search takes, and names the limit and the
	// resource.
	WithinLimits = "WithinLimits"
	// RBACRead is not of Clusterpedia. It is false while an RBAC object of a cluster with memberRBAC cannot be read, which closes its
	// namespace or the cluster.
	RBACRead = "RBACRead"
)

// Stale is the reason of the condition Fresh if all first lists are complete, and a resource was not heard for long.
const Stale = "Stale"

// ClusterStatus is what search knows of a cluster.
type ClusterStatus struct {
	APIServer     string             `json:"apiserver,omitempty"`
	Version       string             `json:"version,omitempty"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
	SyncResources []GroupStatus      `json:"syncResources,omitempty"`
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
	Version            string      `json:"version"`
	SyncVersion        string      `json:"syncVersion,omitempty"`
	StorageVersion     string      `json:"storageVersion,omitempty"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
	InitialListPhase   bool        `json:"initialListPhase,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}
