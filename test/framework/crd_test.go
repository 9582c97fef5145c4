// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestCRDManifest(t *testing.T) {
	for name, tc := range map[string]struct {
		crd                    CRD
		want, scope            string
		versions               []string
		status, keepsAllFields bool
	}{
		"the least": {crd: CRD{Kind: "Widget"}, want: "widgets.example.com", scope: "Namespaced", versions: []string{"v1"}, keepsAllFields: true},
		"everything": {
			crd: CRD{
				Kind: "Planet", Group: "space.example.com", ClusterScoped: true, Schema: Data, Subresources: "{status: {}}",
				MoreVersions: []string{"{name: v2, served: true, storage: false, schema: {openAPIV3Schema: " + Any + "}}"},
			},
			want: "planets.space.example.com", scope: "Cluster", versions: []string{"v1", "v2"}, status: true,
		},
	} {
		var got apiextensionsv1.CustomResourceDefinition
		require.NoError(t, yaml.UnmarshalStrict([]byte(tc.crd.String()), &got), name)
		var versions []string
		for _, version := range got.Spec.Versions {
			versions = append(versions, version.Name)
		}
		first := got.Spec.Versions[0]
		keeps := first.Schema.OpenAPIV3Schema.XPreserveUnknownFields
		if got.Name != tc.want || string(got.Spec.Scope) != tc.scope || !slices.Equal(versions, tc.versions) ||
			(first.Subresources != nil) != tc.status || (keeps != nil && *keeps) != tc.keepsAllFields {
			t.Errorf("%s: manifest is\n%s", name, tc.crd)
		}
	}
}
