// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"maps"

	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const modelPackage = "io.clusterpedia.v1beta1."

// OpenAPIModelName is the name of the kind in OpenAPI documents.
func (Resources) OpenAPIModelName() string { return modelPackage + "Resources" }

// OpenAPIModelName is the name of the kind in OpenAPI documents.
func (CollectionResource) OpenAPIModelName() string { return modelPackage + "CollectionResource" }

// OpenAPIModelName is the name of the type in OpenAPI documents.
func (CollectionResourceType) OpenAPIModelName() string {
	return modelPackage + "CollectionResourceType"
}

// OpenAPIModelName is the name of the kind in OpenAPI documents.
func (CollectionResourceList) OpenAPIModelName() string {
	return modelPackage + "CollectionResourceList"
}

// OpenAPIDefinitions are the schemas of the kinds, and of those of Kubernetes that each API server has.
func OpenAPIDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := maps.Clone(openapi.GetOpenAPIDefinitions(ref))
	object, list := metav1.ObjectMeta{}.OpenAPIModelName(), metav1.ListMeta{}.OpenAPIModelName()
	collection, resource := CollectionResource{}.OpenAPIModelName(), CollectionResourceType{}.OpenAPIModelName()
	raw := runtime.RawExtension{}.OpenAPIModelName()
	text := func(description string) spec.Schema { return *spec.StringProperty().WithDescription(description) }
	of := func(name string) *spec.Schema { return &spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}} }
	typeMeta := func(properties map[string]spec.Schema) map[string]spec.Schema {
		properties["apiVersion"] = text("Version of the schema of this object.")
		properties["kind"] = text("Kind of this object.")
		return properties
	}
	all[Resources{}.OpenAPIModelName()] = definition("Resources is the kind of what is below resources/.", typeMeta(map[string]spec.Schema{}))
	all[collection] = definition("CollectionResource has objects of several resources.", typeMeta(map[string]spec.Schema{
		"metadata": *of(object), "resourceTypes": *spec.ArrayProperty(of(resource)).WithDescription("Resources of the items."),
		"items": *spec.ArrayProperty(of(raw)), "continue": text("Where the next page begins."),
		"remainingItemCount": *spec.Int64Property().WithDescription("How many items are after this page."),
	}), object, resource, raw)
	all[resource] = definition("CollectionResourceType is a resource, or all resources of a group.", map[string]spec.Schema{
		"group": text("API group."), "version": text("Version."), "kind": text("Kind."),
		"resource": text("Plural name, or nothing for all resources of the group."),
	})
	all[CollectionResourceList{}.OpenAPIModelName()] = definition("CollectionResourceList is a list of collections.",
		typeMeta(map[string]spec.Schema{"metadata": *of(list), "items": *spec.ArrayProperty(of(collection))}), list, collection)
	return all
}

func definition(description string, properties map[string]spec.Schema, dependencies ...string) common.OpenAPIDefinition {
	schema := spec.Schema{SchemaProps: spec.SchemaProps{Description: description, Type: []string{"object"}, Properties: properties}}
	return common.OpenAPIDefinition{Schema: schema, Dependencies: dependencies}
}
