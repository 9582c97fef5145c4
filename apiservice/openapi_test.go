// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	metaInGo      = "k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta"
	metaInOpenAPI = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
)

// generated are schemas as openapi-gen writes them if its input packages lack that of ObjectMeta.
func generated(names ...string) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := map[string]common.OpenAPIDefinition{}
		for _, name := range names {
			schema := spec.Schema{SchemaProps: spec.SchemaProps{Properties: map[string]spec.Schema{
				"metadata": {SchemaProps: spec.SchemaProps{Ref: ref(metaInGo)}}, "other": {SchemaProps: spec.SchemaProps{Ref: ref("example.com/v1.Other")}},
			}}}
			all[name] = common.OpenAPIDefinition{Schema: schema, Dependencies: []string{metaInGo, "example.com/v1.Other"}}
		}
		return all
	}
}

func TestSchemasOfKubernetesAreThere(t *testing.T) {
	s := &Service{Definitions: generated("example.com/v1.Book")}
	ref := func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + common.EscapeJsonPointer(name))
	}
	definitions := s.definitions(ref)
	require.Contains(t, definitions, metaInOpenAPI)
	book := definitions["example.com/v1.Book"]
	assert.Equal(t, ref(metaInOpenAPI), book.Schema.Properties["metadata"].Ref)
	assert.Equal(t, []string{metaInOpenAPI, "example.com/v1.Other"}, book.Dependencies, "only types of Kubernetes have other names")

	s.Definitions = generated(metaInGo)
	assert.Contains(t, s.definitions(ref)[metaInOpenAPI].Schema.Properties, "other", "the author's schema counts, under the same name")
}

func TestKindsWithoutSchemasAreWrong(t *testing.T) {
	s := Service{
		Name: "apps", AddToScheme: []func(*runtime.Scheme) error{appsv1.AddToScheme}, Definitions: generated(),
		Groups: []Group{{Name: "apps", Versions: []string{"v1"}, Resources: []Resource{Objects[*appsv1.Deployment]{Name: "deployments"}}}},
	}
	assert.ErrorContains(t, s.Validate(), "Definitions has no schema of *v1.")
	var names []string
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1.AddToScheme(scheme))
	for gvk := range scheme.AllKnownTypes() {
		example, err := scheme.New(gvk)
		require.NoError(t, err)
		names = append(names, util.GetCanonicalTypeName(example))
	}
	s.Definitions = generated(names...)
	assert.NoError(t, s.Validate())
	s.Groups[0].Resources = []Resource{Objects[*appsv1.Deployment]{Name: "deployments", Versions: []string{"v2"}}}
	assert.ErrorContains(t, s.Validate(), "version v2 is not one of the group")
}
