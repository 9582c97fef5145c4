// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command wardle is the sample API service of Kubernetes' documentation (k8s.io/sample-apiserver), with the same API, as a backend of
// Tripod.
package main

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/examples/wardle/openapi"
	"github.com/tripod-k8s/tripod/examples/wardle/v1alpha1"
	"github.com/tripod-k8s/tripod/examples/wardle/v1beta1"
)

func main() { os.Exit(apiservice.Main(service())) }

func service() apiservice.Service {
	return apiservice.Service{
		Name:        "wardle",
		Description: "wardle serves flunders, and fischers that ban them.",
		AddToScheme: []func(*runtime.Scheme) error{addToScheme},
		Definitions: openapi.GetOpenAPIDefinitions,
		EtcdPrefix:  "/registry/wardle.example.com",
		Groups: []apiservice.Group{{
			Name:           group,
			Versions:       []string{"v1beta1", "v1alpha1"},
			StorageVersion: "v1alpha1",
			Resources: []apiservice.Resource{
				apiservice.Objects[*v1beta1.Flunder]{
					Name:           "flunders",
					Validate:       func(_ context.Context, f *v1beta1.Flunder) field.ErrorList { return validate(f.Spec) },
					ValidateUpdate: func(context.Context, *v1beta1.Flunder, *v1beta1.Flunder) field.ErrorList { return nil },
				},
				apiservice.Objects[*v1alpha1.Fischer]{Name: "fischers", ClusterScoped: true, Versions: []string{"v1alpha1"}},
			},
		}},
		Plugins: []apiservice.Plugin{{Name: "BanFlunder", New: newBanFlunder}},
	}
}

// validate returns what is wrong with a flunder: it refers to one thing, of the type that it says.
func validate(s v1beta1.FlunderSpec) (errs field.ErrorList) {
	flunder, fischer, path := s.FlunderReference, s.FischerReference, field.NewPath("spec")
	switch {
	case flunder != "" && fischer != "":
		errs = append(errs, field.Invalid(path.Child("fischerReference"), fischer, "cannot be set with flunderReference at the same time"))
	case flunder != "" && s.ReferenceType != v1beta1.FlunderReferenceType:
		errs = append(errs, field.Invalid(path.Child("flunderReference"), flunder, "cannot be set if referenceType is not Flunder"))
	case fischer != "" && s.ReferenceType != v1beta1.FischerReferenceType:
		errs = append(errs, field.Invalid(path.Child("fischerReference"), fischer, "cannot be set if referenceType is not Fischer"))
	case fischer == "" && s.ReferenceType == v1beta1.FischerReferenceType:
		errs = append(errs, field.Invalid(path.Child("fischerReference"), fischer, "cannot be empty if referenceType is Fischer"))
	case flunder == "" && s.ReferenceType == v1beta1.FlunderReferenceType:
		errs = append(errs, field.Invalid(path.Child("flunderReference"), flunder, "cannot be empty if referenceType is Flunder"))
	}
	if t := s.ReferenceType; t != "" && t != v1beta1.FischerReferenceType && t != v1beta1.FlunderReferenceType {
		errs = append(errs, field.Invalid(path.Child("referenceType"), t, "must be Flunder or Fischer"))
	}
	return errs
}
