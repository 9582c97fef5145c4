// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// CRD is what the aggregator reads of a CustomResourceDefinition. Decoding into it skips the
// schemas, which are nearly all of a definition's size.
type CRD struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec CRDSpec `json:"spec"`
}

// CRDSpec is the part of spec that says which group-versions are served.
type CRDSpec struct {
	Group    string       `json:"group"`
	Versions []CRDVersion `json:"versions"`
}

// CRDVersion is a version of a CRD.
type CRDVersion struct {
	Name   string `json:"name"`
	Served bool   `json:"served"`
}

// DeepCopyObject makes a CRD a runtime.Object.
func (c *CRD) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Versions = append([]CRDVersion(nil), c.Spec.Versions...)
	return &out
}

// CRDList is a list of CRDs.
type CRDList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CRD `json:"items"`
}

// DeepCopyObject makes a CRDList a runtime.Object.
func (l *CRDList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]CRD, 0, len(l.Items))
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*CRD))
	}
	return &out
}

var crdGroupVersion = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}

// NewCRDInformer returns an informer on the CRDs of extensions that holds about a kilobyte for each.
func NewCRDInformer(config *rest.Config) (cache.SharedIndexInformer, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(crdGroupVersion.WithKind("CustomResourceDefinition"), &CRD{})
	scheme.AddKnownTypeWithName(crdGroupVersion.WithKind("CustomResourceDefinitionList"), &CRDList{})
	metav1.AddToGroupVersion(scheme, crdGroupVersion)

	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &crdGroupVersion
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for CustomResourceDefinitions: %w", err)
	}
	source := cache.NewListWatchFromClient(client, "customresourcedefinitions", "", fields.Everything())
	informer := cache.NewSharedIndexInformer(source, &CRD{}, crdResync, cache.Indexers{})
	if err := informer.SetTransform(trimMetadata); err != nil {
		return nil, err
	}
	return informer, nil
}

// crdResync is how often every CRD is compared with its APIServices again.
const crdResync = 5 * time.Minute

// trimMetadata drops what makes up most of the rest of a CRD.
func trimMetadata(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
		object.SetAnnotations(nil)
	}
	return obj, nil
}
