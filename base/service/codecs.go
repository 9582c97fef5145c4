// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// AddUnversioned adds to a scheme the kinds that every API answers with besides its own: Status, and the lists of discovery.
func AddUnversioned(scheme *runtime.Scheme) {
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
}

// Codecs returns the codecs of answers that belong to no resource, such as errors and lists of groups. They include CBOR if its gate is on,
// as in kube-apiserver.
func Codecs(scheme *runtime.Scheme) serializer.CodecFactory {
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		return serializer.NewCodecFactory(scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	return serializer.NewCodecFactory(scheme)
}
