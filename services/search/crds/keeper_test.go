// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// schemaOf returns the schema of the only version of a definition.
func schemaOf(t *testing.T, definition map[string]any) map[string]any {
	t.Helper()
	versions, _, err := unstructured.NestedFieldNoCopy(definition, "spec", "versions")
	require.NoError(t, err)
	schema, _, err := unstructured.NestedFieldNoCopy(versions.([]any)[0].(map[string]any), "schema", "openAPIV3Schema")
	require.NoError(t, err)
	return schema.(map[string]any)
}

func TestADefinitionLacksFields(t *testing.T) {
	for file := range names {
		assert.False(t, lacks(definition(file), definition(file)), file)
		assert.True(t, lacks(definition(file), map[string]any{}), file)
	}
	const file = "cluster.clusterpedia.io_pediaclusters.yaml"
	for name, test := range map[string]struct {
		change  func(schema map[string]any)
		lacking bool
	}{
		"a field": {func(schema map[string]any) {
			unstructured.RemoveNestedField(schema, "properties", "spec", "properties", "memberRBAC")
		}, true},
		"a field in a field": {func(schema map[string]any) {
			unstructured.RemoveNestedField(schema, "properties", "spec", "properties", "memberRBAC", "properties", "groups")
		}, true},
		"a field in a list": {func(schema map[string]any) {
			unstructured.RemoveNestedField(schema, "properties", "spec", "properties", "syncResources", "items", "properties", "eventsInvolvedResources")
		}, true},
		"a description": {func(schema map[string]any) { delete(schema, "description") }, false},
		"nothing, because it keeps unknown fields": {func(schema map[string]any) {
			unstructured.RemoveNestedField(schema, "properties", "spec", "properties", "memberRBAC")
			require.NoError(t, unstructured.SetNestedField(schema, true, "properties", "spec", "x-kubernetes-preserve-unknown-fields"))
		}, false},
	} {
		live := definition(file)
		test.change(schemaOf(t, live))
		assert.Equal(t, test.lacking, lacks(definition(file), live), name)
	}
}
