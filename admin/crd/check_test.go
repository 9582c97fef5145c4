// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/base/migration"
)

func TestADefinitionIsComparedWithTheService(t *testing.T) {
	status := &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	for name, test := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinitionSpec, *migration.Resource)
		wrong  string
	}{
		"the same":       {func(*apiextensionsv1.CustomResourceDefinitionSpec, *migration.Resource) {}, ""},
		"another plural": {func(_ *apiextensionsv1.CustomResourceDefinitionSpec, r *migration.Resource) { r.Name = "tomes" }, "does not serve books.example.com"},
		"another kind":   {func(_ *apiextensionsv1.CustomResourceDefinitionSpec, r *migration.Resource) { r.Kind = "Tome" }, "the kind of books.example.com is Book, and Tome in the service books"},
		"another scope":  {func(_ *apiextensionsv1.CustomResourceDefinitionSpec, r *migration.Resource) { r.Namespaced = false }, "the scope of books.example.com is Namespaced"},
		"a missing version": {func(_ *apiextensionsv1.CustomResourceDefinitionSpec, r *migration.Resource) {
			r.Versions = []string{"v2", "v3"}
		},
			"books.example.com is served in v1, and the service books has only v2, v3"},
		"a version that is not served": {func(s *apiextensionsv1.CustomResourceDefinitionSpec, _ *migration.Resource) {
			s.Versions = append(s.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v0"})
		}, ""},
		"a missing status": {func(s *apiextensionsv1.CustomResourceDefinitionSpec, _ *migration.Resource) {
			s.Versions[0].Subresources = status
		},
			"the subresource status of books.example.com in v1 is there: true, and in the service books: false"},
		"a status": {func(_ *apiextensionsv1.CustomResourceDefinitionSpec, r *migration.Resource) { r.Status = true }, "is there: false, and in the service books: true"},
		"the status of both": {func(s *apiextensionsv1.CustomResourceDefinitionSpec, r *migration.Resource) {
			s.Versions[0].Subresources, r.Status = status, true
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			definition := &apiextensionsv1.CustomResourceDefinition{
				ObjectMeta: metav1.ObjectMeta{Name: "books.example.com"},
				Spec: apiextensionsv1.CustomResourceDefinitionSpec{
					Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "books", Kind: "Book"},
					Scope: apiextensionsv1.NamespaceScoped, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}},
				},
			}
			served := migration.Resource{Name: "books", Kind: "Book", Namespaced: true, Versions: []string{"v1"}}
			test.change(&definition.Spec, &served)
			err := compare(definition, []migration.Resource{{Name: "other"}, served}, "books")
			if test.wrong == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.wrong)
		})
	}
}
