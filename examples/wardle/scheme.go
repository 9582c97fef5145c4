// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/examples/wardle/v1alpha1"
	"github.com/tripod-k8s/tripod/examples/wardle/v1beta1"
)

const group = "wardle.example.com"

func addToScheme(s *runtime.Scheme) error {
	alpha, beta := schema.GroupVersion{Group: group, Version: "v1alpha1"}, schema.GroupVersion{Group: group, Version: "v1beta1"}
	s.AddKnownTypes(alpha, &v1alpha1.Flunder{}, &v1alpha1.FlunderList{}, &v1alpha1.Fischer{}, &v1alpha1.FischerList{})
	s.AddKnownTypes(beta, &v1beta1.Flunder{}, &v1beta1.FlunderList{})
	metav1.AddToGroupVersion(s, alpha)
	metav1.AddToGroupVersion(s, beta)
	apiservice.AddDefaults(s, func(f *v1alpha1.Flunder) {
		if spec := &f.Spec; (spec.ReferenceType == nil || *spec.ReferenceType == "") && spec.Reference != "" {
			spec.ReferenceType = new(v1alpha1.ReferenceType(v1beta1.FlunderReferenceType))
		}
	})
	return apiservice.AddConversion(s, toBeta, toAlpha)
}

func toBeta(in *v1alpha1.Flunder, out *v1beta1.Flunder) error {
	out.ObjectMeta = in.ObjectMeta
	if in.Spec.ReferenceType == nil {
		return nil
	}
	switch t := v1beta1.ReferenceType(*in.Spec.ReferenceType); t {
	case v1beta1.FlunderReferenceType:
		out.Spec = v1beta1.FlunderSpec{ReferenceType: t, FlunderReference: in.Spec.Reference}
	case v1beta1.FischerReferenceType:
		out.Spec = v1beta1.FlunderSpec{ReferenceType: t, FischerReference: in.Spec.Reference}
	}
	return nil
}

func toAlpha(in *v1beta1.Flunder, out *v1alpha1.Flunder) error {
	out.ObjectMeta = in.ObjectMeta
	t := v1alpha1.ReferenceType(in.Spec.ReferenceType)
	switch in.Spec.ReferenceType {
	case v1beta1.FlunderReferenceType:
		out.Spec = v1alpha1.FlunderSpec{ReferenceType: &t, Reference: in.Spec.FlunderReference}
	case v1beta1.FischerReferenceType:
		out.Spec = v1alpha1.FlunderSpec{ReferenceType: &t, Reference: in.Spec.FischerReference}
	}
	return nil
}
