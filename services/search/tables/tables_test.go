// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

func headings(table *Table) (names []string) {
	for _, column := range table.Columns {
		if column.Priority == 0 {
			names = append(names, column.Name)
		}
	}
	return names
}

// row returns a table of a kind, and the row of one object.
func row(t *testing.T, kind schema.GroupVersionKind, columns []byte, include metav1.IncludeObjectPolicy, object string) (*Table, metav1.TableRow) {
	t.Helper()
	table, err := New(t.Context(), kind, columns, include)
	require.NoError(t, err)
	row, err := table.Row(t.Context(), "east", []byte(object))
	require.NoError(t, err)
	return table, row
}

func TestBuiltInKindsHaveTheColumnsOfKubernetes(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	table, of := row(t, kind, nil, "", `{"kind": "Deployment", "apiVersion": "apps/v1",
		"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "nginx"}]}}},
		"status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}}`)
	assert.Equal(t, []string{"Cluster", "Name", "Ready", "Up-to-date", "Available", "Age"}, headings(table))
	assert.Equal(t, []any{"east", "web", "2/3", int64(3), int64(2), "<unknown>", "c", "nginx", ""}, of.Cells)
	assert.JSONEq(t, `{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "web", "namespace": "default"}}`, string(of.Object.Raw))
}

func TestCustomResourcesHaveTheColumnsOfTheirDefinition(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}
	boat := `{"kind": "Boat", "apiVersion": "example.com/v1", "metadata": {"name": "b", "uid": "u"}, "spec": {"length": 7}}`
	columns, err := json.Marshal([]map[string]string{{"name": "Length", "type": "integer", "jsonPath": ".spec.length"}})
	require.NoError(t, err)
	table, of := row(t, kind, columns, metav1.IncludeObject, boat)
	assert.Equal(t, []string{"Cluster", "Name", "Length"}, headings(table))
	assert.EqualValues(t, []any{"east", "b", int64(7)}, of.Cells)
	assert.Equal(t, boat, string(of.Object.Raw))

	table, of = row(t, kind, nil, metav1.IncludeNone, boat)
	assert.Equal(t, []string{"Cluster", "Name", "Age"}, headings(table))
	assert.Nil(t, of.Object.Raw)
}

func TestColumnsWriteNumbersAsKubernetesDoes(t *testing.T) {
	var columns []map[string]string
	for _, of := range []string{"string", "integer", "number"} {
		for _, field := range []string{"whole", "large", "fraction", "list"} {
			columns = append(columns, map[string]string{"name": of + " " + field, "type": of, "jsonPath": ".spec." + field})
		}
	}
	text, err := json.Marshal(columns)
	require.NoError(t, err)
	_, of := row(t, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}, text, metav1.IncludeNone, `{"kind": "Boat",
		"apiVersion": "example.com/v1", "metadata": {"name": "b"},
		"spec": {"whole": 2147483648, "large": 9007199254740993, "fraction": 0.5, "list": [2147483648]}}`)
	assert.Equal(t, []any{
		"east", "b", "2147483648", "9007199254740993", "0.5", "[2147483648]",
		int64(2147483648), int64(9007199254740993), int64(0), nil, 2147483648.0, 9007199254740992.0, 0.5, nil,
	}, of.Cells)
}

func TestABuiltInKindWithoutColumnsOfItsOwn(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	table, of := row(t, kind, nil, metav1.IncludeNone, `{"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
		"metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}}`)
	assert.Equal(t, []string{"Cluster", "Name", "Created At"}, headings(table))
	assert.Equal(t, []any{"east", "r"}, of.Cells[:2])
}

func TestObjectsOfSeveralKinds(t *testing.T) {
	table := OfSeveralKinds("")
	of, err := table.Row(t.Context(), "east", []byte(`{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web", "namespace": "default"}, "spec": {}}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"Cluster", "Group", "Version", "Kind", "Namespace", "Name", "Age"}, headings(table))
	assert.Equal(t, []any{"east", "apps", "v1", "Deployment", "default", "web", "<unknown>"}, of.Cells)
	assert.JSONEq(t, `{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "web", "namespace": "default"}}`, string(of.Object.Raw))
}

func TestIngressesHaveTheColumnsOfKubernetes(t *testing.T) {
	table, err := New(t.Context(), schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, nil, metav1.IncludeNone)
	require.NoError(t, err)
	var names []string
	for _, column := range table.Columns {
		names = append(names, column.Name)
	}
	assert.Equal(t, []string{"Cluster", "Name", "Class", "Hosts", "Address", "Ports", "Age"}, names)
}

// TestEachKindOfKubernetesHasItsColumns holds that no group is left out whose kinds kube-apiserver shows with columns.
func TestEachKindOfKubernetesHasItsColumns(t *testing.T) {
	withoutTables := sets.New("", "apidiscovery.k8s.io", "extensions", "imagepolicy.k8s.io", "meta.k8s.io") // without objects, but for the core group
	for kind := range clientgoscheme.Scheme.AllKnownTypes() {
		if !withoutTables.Has(kind.Group) && kind.Version != runtime.APIVersionInternal {
			assert.True(t, legacyscheme.Scheme.IsGroupRegistered(kind.Group), kind.Group)
		}
	}
	for kind, want := range map[schema.GroupVersionKind][]string{
		{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}:                         {"Cluster", "Name", "Service", "Available", "Age"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}: {"Cluster", "Name", "Webhooks", "Age"},
		{Group: "node.k8s.io", Version: "v1", Kind: "RuntimeClass"}:                                  {"Cluster", "Name", "Handler", "Age"},
	} {
		table, _ := row(t, kind, nil, metav1.IncludeNone, fmt.Sprintf(`{"kind": %q, "apiVersion": %q, "metadata": {"name": "x"}}`, kind.Kind, kind.GroupVersion()))
		assert.Equal(t, want, headings(table))
	}
}

func TestARowIsNotLargerThanItsObject(t *testing.T) {
	var columns []map[string]string
	for i := range 64 {
		columns = append(columns, map[string]string{"name": fmt.Sprint("Column ", i), "type": "string", "jsonPath": ".spec"})
	}
	text, err := json.Marshal(columns)
	require.NoError(t, err)
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}
	boat := `{"kind": "Boat", "apiVersion": "example.com/v1", "metadata": {"name": "b"}, "spec": {"text": "%s"}}`
	_, of := row(t, kind, text, metav1.IncludeNone, fmt.Sprintf(boat, "short"))
	assert.Contains(t, of.Cells[65], "short")
	for _, size := range []int{1_000, 10_000_000} {
		_, of = row(t, kind, text, metav1.IncludeNone, fmt.Sprintf(boat, strings.Repeat("x", size)))
		assert.Equal(t, []any{"east", "b", nil}, of.Cells[:3])
	}
}

func TestAnObjectThatDoesNotFitItsKindHasARow(t *testing.T) {
	table, of := row(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, nil, "", `{"kind": "Deployment", "apiVersion": "apps/v1",
		"metadata": {"name": "web"}, "spec": {"replicas": "three"}}`)
	assert.Equal(t, []any{"east", "web"}, of.Cells[:2])
	assert.Len(t, of.Cells, len(table.Columns))
}
