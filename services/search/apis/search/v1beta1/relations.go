// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectRelations are the objects of a cluster that are related to one of its objects, as far as the reader may list them.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ObjectRelations struct {
	metav1.TypeMeta `json:",inline"`
	// Name, namespace and UID of the object. The resourceVersion is the revision of search that the answer shows.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The object that the relations are about.
	Object RelatedObject `json:"object"`
	// Relations of the object.
	//
	// +optional
	Relations []Relation `json:"relations,omitempty"`
	// Related objects that the answer has no room for. Objects that the reader may not list do not count.
	//
	// +optional
	LeftOff []RelationsLeftOff `json:"leftOff,omitempty"`
	// Set if search has stopped to look for relations, because the object, or what the reader may list of its cluster, has too much.
	//
	// +optional
	Incomplete bool `json:"incomplete,omitempty"`
	// Events about the object, the latest first.
	//
	// +optional
	Events []RelatedEvent `json:"events,omitempty"`
}

// RelatedObject names an object of the cluster.
type RelatedObject struct {
	// API group, empty for the core group.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// Version.
	Version string `json:"version"`
	// Kind, as the cluster names it.
	Kind string `json:"kind"`
	// Plural name of the resource.
	Resource string `json:"resource"`
	// Namespace, empty if the object is in none.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name.
	Name string `json:"name"`
	// UID.
	//
	// +optional
	UID string `json:"uid,omitempty"`
	// When the object was created.
	//
	// +optional
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`
}

// RelationType says in which way one object points at another.
type RelationType string

// The types of relations. The first object points at the second.
const (
	// RelationOwner is from an object to its owner.
	RelationOwner RelationType = "Owner"
	// RelationSelector is from a Service, NetworkPolicy or PodDisruptionBudget to the pods that it selects.
	RelationSelector RelationType = "Selector"
	// RelationScaleTarget is from a HorizontalPodAutoscaler to what it scales.
	RelationScaleTarget RelationType = "ScaleTarget"
	// RelationVolume, RelationEnvironment, RelationImagePullSecret, RelationServiceAccount and RelationPriorityClass are from a pod, or
	// something with a template of pods.
	RelationVolume          RelationType = "Volume"
	RelationEnvironment     RelationType = "Environment"
	RelationImagePullSecret RelationType = "ImagePullSecret"
	RelationServiceAccount  RelationType = "ServiceAccount"
	RelationPriorityClass   RelationType = "PriorityClass"
	// RelationNode is from a pod to its node.
	RelationNode RelationType = "Node"
	// RelationVolumeBinding is between a PersistentVolumeClaim and its PersistentVolume.
	RelationVolumeBinding RelationType = "VolumeBinding"
	// RelationStorageClass is from a PersistentVolumeClaim or PersistentVolume.
	RelationStorageClass RelationType = "StorageClass"
	// RelationBackend is from an Ingress or a route to a Service, or from an EndpointSlice to a pod.
	RelationBackend RelationType = "Backend"
	// RelationService is from an EndpointSlice, a StatefulSet, a configuration of webhooks, a CustomResourceDefinition or an APIService.
	RelationService RelationType = "Service"
	// RelationTLSSecret is from an Ingress or a Gateway.
	RelationTLSSecret RelationType = "TLSSecret"
	// RelationIngressClass is from an Ingress, RelationGateway from a route, and RelationGatewayClass from a Gateway.
	RelationIngressClass RelationType = "IngressClass"
	RelationGateway      RelationType = "Gateway"
	RelationGatewayClass RelationType = "GatewayClass"
	// RelationRoleRef is from a binding to its role, and RelationSubject to a ServiceAccount.
	RelationRoleRef RelationType = "RoleRef"
	RelationSubject RelationType = "Subject"
)

// RelationTypes are all types, in the order of answers.
var RelationTypes = []RelationType{
	RelationOwner, RelationSelector, RelationScaleTarget, RelationBackend, RelationService, RelationGateway, RelationGatewayClass,
	RelationIngressClass, RelationTLSSecret, RelationVolume, RelationEnvironment, RelationVolumeBinding, RelationStorageClass,
	RelationServiceAccount, RelationImagePullSecret, RelationPriorityClass, RelationNode, RelationRoleRef, RelationSubject,
}

// RelationDirection says which of two objects points at the other one.
type RelationDirection string

// The directions.
const (
	// RelationOutgoing says that the object, or the one in Via, points at the related one.
	RelationOutgoing RelationDirection = "Outgoing"
	// RelationIncoming says that the related object points at the object, or at the one in Via.
	RelationIncoming RelationDirection = "Incoming"
)

// Relation is a related object, and how it is related.
type Relation struct {
	// In which way one of the objects points at the other one.
	Type RelationType `json:"type"`
	// Outgoing if the object points at the related one, or Incoming.
	Direction RelationDirection `json:"direction"`
	// 1 for a direct relation. It is greater for the owners of owners, and the objects that owned objects own.
	Distance int32 `json:"distance"`
	// The related object.
	Object RelatedObject `json:"object"`
	// The object in between, if the distance is greater than 1.
	//
	// +optional
	Via *RelatedObject `json:"via,omitempty"`
	// Paths of the fields that point at the other object.
	//
	// +optional
	Fields []string `json:"fields,omitempty"`
}

// RelationsLeftOff counts related objects of a resource that an answer has no room for.
type RelationsLeftOff struct {
	// Type of the relations.
	Type RelationType `json:"type"`
	// Direction of the relations.
	Direction RelationDirection `json:"direction"`
	// API group of the objects.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// Plural name of their resource.
	Resource string `json:"resource"`
	// How many these are.
	Count int64 `json:"count"`
	// Set if there are more than Count.
	//
	// +optional
	More bool `json:"more,omitempty"`
}

// RelatedEvent is an event about the object.
type RelatedEvent struct {
	// Namespace and name of the event.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Normal or Warning.
	//
	// +optional
	Type string `json:"type,omitempty"`
	// Why it happened, in a word.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// The first 1024 characters of what the event says.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// How often it has happened.
	//
	// +optional
	Count int64 `json:"count,omitempty"`
	// When it has last happened.
	//
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// Component that says so.
	//
	// +optional
	Component string `json:"component,omitempty"`
}
