// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of this package.
var GroupVersion = schema.GroupVersion{Group: "clusterpedia.io", Version: "v1beta1"}

// Resources is the kind of what is below resources/. There are no objects of it.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Resources struct {
	metav1.TypeMeta `json:",inline"`
}

// CollectionResource has objects of several resources.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CollectionResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Resources of the items. In a list of collections, they are the resources that the collection is for.
	//
	// +optional
	ResourceTypes []CollectionResourceType `json:"resourceTypes"`
	// Objects of the page.
	Items []runtime.RawExtension `json:"items,omitempty"`
	// Where the next page begins.
	Continue string `json:"continue,omitempty"`
	// How many items are after this page.
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
}

// CollectionResourceType is a resource, or all resources of a group if Resource is empty.
type CollectionResourceType struct {
	// API group.
	//
	// +optional
	Group string `json:"group"`
	// Version.
	//
	// +optional
	Version string `json:"version"`
	// Kind.
	Kind string `json:"kind,omitempty"`
	// Plural name, or nothing for all resources of the group.
	//
	// +optional
	Resource string `json:"resource"`
}

// CollectionResourceList is a list of collections.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CollectionResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// +optional
	Items []CollectionResource `json:"items"`
}

// AddToScheme adds the kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Resources{}, &CollectionResource{}, &CollectionResourceList{}, &ObjectRelations{},
		&ObjectCounts{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
