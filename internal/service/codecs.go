// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Codecs returns the codecs of answers that belong to no resource, such as errors and lists of groups. They include CBOR if its gate is on,
// as in kube-apiserver.
func Codecs(scheme *runtime.Scheme) serializer.CodecFactory {
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		return serializer.NewCodecFactory(scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	return serializer.NewCodecFactory(scheme)
}
