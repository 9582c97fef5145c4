// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
)

// propsOf returns the schema of the only version of a definition.
func propsOf(t *testing.T, file string) *apiextensions.JSONSchemaProps {
	t.Helper()
	text, err := json.Marshal(schemaOf(t, definition(file)))
	require.NoError(t, err)
	var props apiextensionsv1.JSONSchemaProps
	require.NoError(t, json.Unmarshal(text, &props))
	internal := &apiextensions.JSONSchemaProps{}
	require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, internal, nil))
	return internal
}

// decoded returns the fields of JSON.
func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &fields))
	return fields
}

func TestObjectsAreKeptAsTheyAreWritten(t *testing.T) {
	for name, test := range map[string]struct{ file, object string }{
		"what Clusterpedia has beside search": {"cluster.clusterpedia.io_pediaclusters.yaml", `{
			"spec": {"syncResources": [], "shardingName": "a"},
			"status": {"shardingName": "a", "syncResources": [{"group": "", "resources": [{"name": "pods", "kind": "Pod", "namespaced": true,
				"syncConditions": [{"version": "v1", "status": "Syncing", "lastTransitionTime": "2026-01-01T00:00:00Z",
					"syncResource": "pods", "storageResource": "pods"}]}]}]}}`},
		"neither spec nor status":                 {"cluster.clusterpedia.io_pediaclusters.yaml", `{"metadata": {"name": "a"}}`},
		"no spec of resources":                    {"cluster.clusterpedia.io_clustersyncresources.yaml", `{"metadata": {"name": "a"}}`},
		"no spec of a policy":                     {"policy.clusterpedia.io_clusterimportpolicies.yaml", `{"metadata": {"name": "a"}}`},
		"no spec of a lifecycle":                  {"policy.clusterpedia.io_pediaclusterlifecycles.yaml", `{"metadata": {"name": "a"}}`},
		"a member whose RBAC counts as it stands": {"cluster.clusterpedia.io_pediaclusters.yaml", `{"spec": {"syncResources": [], "memberRBAC": {}}}`},
		"versions of a reference of a policy": {"policy.clusterpedia.io_clusterimportpolicies.yaml", `{"spec": {
			"source": {"group": "", "resource": "secrets"}, "nameTemplate": "a", "template": "b", "creationCondition": "c",
			"references": [{"key": "k", "group": "", "resource": "secrets", "nameTemplate": "d", "versions": ["v1"]}]}}`},
		"the version of a reference of a lifecycle": {"policy.clusterpedia.io_pediaclusterlifecycles.yaml", `{"spec": {
			"source": {"group": "", "version": "v1", "resource": "secrets", "name": "s"}, "template": "b", "creationCondition": "c",
			"references": [{"key": "k", "group": "", "resource": "secrets", "nameTemplate": "d", "version": "v1"}]}}`},
		"a saved search": {"search.tripod-k8s.io_savedsearches.yaml", `{
			"spec": {"parameters": {"groups": "*"}, "intervalSeconds": 60, "threshold": {"moreThan": 0, "forMinutes": 5}, "description": "d"},
			"status": {"user": "u", "matches": 1, "lastEvaluation": "2026-01-01T00:00:00Z", "observedGeneration": 1,
				"counting": {"since": "2026-01-01T00:00:00.000000Z", "generation": 1}, "exceededSince": "2026-01-01T00:00:00Z"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			props, object := propsOf(t, test.file), decoded(t, test.object)
			structural, err := schema.NewStructural(props)
			require.NoError(t, err)
			pruning.Prune(object, structural, true)
			assert.Equal(t, decoded(t, test.object), object)
			validator, _, err := validation.NewSchemaValidator(props)
			require.NoError(t, err)
			assert.Empty(t, validation.ValidateCustomResource(nil, object, validator))
		})
	}
}

func TestSavedSearchesAreBounded(t *testing.T) {
	validator, _, err := validation.NewSchemaValidator(propsOf(t, "search.tripod-k8s.io_savedsearches.yaml"))
	require.NoError(t, err)
	for spec, wrong := range map[string]string{
		`{}`:                 "spec.parameters",
		`{"parameters": {}}`: "spec.parameters",
		`{"parameters": {"groups": "` + strings.Repeat("x", 2049) + `"}}`:                       "spec.parameters.groups",
		`{"parameters": {"groups": "*"}, "intervalSeconds": 29}`:                                "spec.intervalSeconds",
		`{"parameters": {"groups": "*"}, "threshold": {"moreThan": -1}}`:                        "spec.threshold.moreThan",
		`{"parameters": {"groups": "*"}, "description": "` + strings.Repeat("x", 1025) + `"}`:   "spec.description",
		`{"parameters": {"groups": "*"}, "threshold": {"moreThan": 1, "forMinutes": 99999999}}`: "spec.threshold.forMinutes",
	} {
		errs := validation.ValidateCustomResource(nil, decoded(t, `{"spec": `+spec+`}`), validator)
		require.Len(t, errs, 1, spec)
		assert.Equal(t, wrong, errs[0].Field)
	}
}

func TestWrongObjectsAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ object, wrong string }{
		"a namespace with a wrong name": {`{"spec": {"syncResources": [], "namespaces": ["A"]}}`, "spec.namespaces[0]"},
		"no names of resources":         {`{"spec": {"syncResources": [{"group": "", "resources": []}]}}`, "spec.syncResources[0].resources"},
		"a spec without syncResources":  {`{"spec": {}}`, "spec.syncResources"},
	} {
		t.Run(name, func(t *testing.T) {
			validator, _, err := validation.NewSchemaValidator(propsOf(t, "cluster.clusterpedia.io_pediaclusters.yaml"))
			require.NoError(t, err)
			wrong := validation.ValidateCustomResource(nil, decoded(t, test.object), validator)
			require.Len(t, wrong, 1)
			assert.Equal(t, test.wrong, wrong[0].Field)
		})
	}
}
