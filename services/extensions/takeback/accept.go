// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeback

import (
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/migration"
)

// acceptor accepts objects that clients would get as they are.
type acceptor struct {
	definition *apiextensionsv1.CustomResourceDefinition
	version    schema.GroupVersion
	// structural and validator are nil for a version without a schema.
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
}

// newAcceptor returns the acceptor for objects that are stored in a version.
func newAcceptor(definition *apiextensionsv1.CustomResourceDefinition, version string) (*acceptor, error) {
	a := &acceptor{definition: definition, version: schema.GroupVersion{Group: definition.Spec.Group, Version: version}}
	given, err := apihelpers.GetSchemaForVersion(definition, version)
	if err != nil || given == nil || given.OpenAPIV3Schema == nil {
		return a, err
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(given, internal, nil); err != nil {
		return nil, err
	}
	if a.structural, err = structuralschema.NewStructural(internal.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	a.validator, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	return a, err
}

// accept returns an object as it is to be stored.
func (a *acceptor) accept(data json.RawMessage) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, apierrors.NewBadRequest("an object of the batch is none: " + err.Error())
	}
	name, kind := cache.MetaObjectToName(object).String(), a.definition.Spec.Names.Kind
	if of := object.GroupVersionKind(); of.Group != a.version.Group || of.Kind != kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s is a %s, and no %s of %s", name, of, kind, a.version.Group))
	}
	if created := object.GetCreationTimestamp(); object.GetUID() == "" || created.IsZero() {
		return nil, a.refused(name, "metadata.uid", "an object that moves keeps its UID and creationTimestamp")
	}
	// The name and the namespace become the key, so default/dune without a namespace would be that of dune in default.
	namespaced := a.definition.Spec.Scope == apiextensionsv1.NamespaceScoped
	metadata := apivalidation.ValidateObjectMetaAccessor(object, namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if len(metadata) > 0 {
		return nil, a.refused(name, metadata[0].Field, metadata[0].Error())
	}
	object.SetAPIVersion(a.version.String())
	if a.structural == nil {
		return object, nil
	}
	stored := object.DeepCopy()
	if !a.definition.Spec.PreserveUnknownFields {
		pruning.Prune(stored.Object, a.structural, true)
	}
	// An empty struct that Go adds may go.
	if lost := migration.FirstDifference(stored.Object, object.Object); lost != nil {
		return nil, a.refused(name, lost.Field, lost.Field+" would be lost")
	}
	defaulted := runtime.DeepCopyJSON(stored.Object)
	defaulting.Default(defaulted, a.structural)
	if added := migration.FirstDifference(stored.Object, defaulted); added != nil {
		return nil, a.refused(name, added.Field, added.String())
	}
	if errs := validation.ValidateCustomResource(nil, stored.Object, a.validator); len(errs) > 0 {
		return nil, a.refused(name, errs[0].Field, errs[0].Error())
	}
	return stored, nil
}

func (a *acceptor) refused(name, field, why string) error {
	resource := schema.GroupResource{Group: a.version.Group, Resource: a.definition.Spec.Names.Plural}
	return migration.Refused(resource, a.definition.Spec.Names.Kind, name, field, why)
}
