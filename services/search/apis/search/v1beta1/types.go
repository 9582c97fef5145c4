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
type Resources struct {
	metav1.TypeMeta `json:",inline"`
}

// CollectionResource has objects of several resources.
type CollectionResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// ResourceTypes are the resources of the items. In a list of collections, they are the resources that the collection is for.
	ResourceTypes []CollectionResourceType `json:"resourceTypes"`
	Items         []runtime.RawExtension   `json:"items,omitempty"`
	// Continue is where the next page begins.
	Continue string `json:"continue,omitempty"`
	// RemainingItemCount is how many items are after this page.
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
}

// CollectionResourceType is a resource, or all resources of a group if Resource is empty.
type CollectionResourceType struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Kind     string `json:"kind,omitempty"`
	Resource string `json:"resource"`
}

// CollectionResourceList is a list of collections.
type CollectionResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CollectionResource `json:"items"`
}

// AddToScheme adds the kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Resources{}, &CollectionResource{}, &CollectionResourceList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// DeepCopyObject implements runtime.Object.
func (r *Resources) DeepCopyObject() runtime.Object { return &Resources{r.TypeMeta} }

// DeepCopyObject implements runtime.Object.
func (c *CollectionResource) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.ResourceTypes = append([]CollectionResourceType(nil), c.ResourceTypes...)
	out.Items = nil
	for _, item := range c.Items {
		out.Items = append(out.Items, *item.DeepCopy())
	}
	if c.RemainingItemCount != nil {
		out.RemainingItemCount = new(*c.RemainingItemCount)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *CollectionResourceList) DeepCopyObject() runtime.Object {
	out := CollectionResourceList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*CollectionResource))
	}
	return &out
}
