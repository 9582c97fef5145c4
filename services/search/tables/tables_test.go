// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/json"
	"fmt"
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

func headings(table *metav1.Table) (names []string) {
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			names = append(names, column.Name)
		}
	}
	return names
}

func TestBuiltInKindsHaveTheColumnsOfKubernetes(t *testing.T) {
	rows := []Row{{Cluster: "east", JSON: []byte(`{"kind": "Deployment", "apiVersion": "apps/v1",
		"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "nginx"}]}}},
		"status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}}`)}}
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	table, err := New(t.Context(), kind, nil, rows, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"Cluster", "Name", "Ready", "Up-to-date", "Available", "Age"}, headings(table))
	assert.Equal(t, []any{"east", "web", "2/3", int64(3), int64(2), "<unknown>", "c", "nginx", ""}, table.Rows[0].Cells)
	assert.JSONEq(t, `{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "web", "namespace": "default"}}`, string(table.Rows[0].Object.Raw))

	none, err := New(t.Context(), kind, nil, nil, "")
	require.NoError(t, err)
	assert.Equal(t, headings(table), headings(none))
}

func TestCustomResourcesHaveTheColumnsOfTheirDefinition(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}
	rows := []Row{{Cluster: "east", JSON: []byte(`{"kind": "Boat", "apiVersion": "example.com/v1", "metadata": {"name": "b", "uid": "u"}, "spec": {"length": 7}}`)}}
	columns, err := json.Marshal([]map[string]string{{"name": "Length", "type": "integer", "jsonPath": ".spec.length"}})
	require.NoError(t, err)
	table, err := New(t.Context(), kind, columns, rows, metav1.IncludeObject)
	require.NoError(t, err)
	assert.Equal(t, []string{"Cluster", "Name", "Length"}, headings(table))
	assert.EqualValues(t, []any{"east", "b", int64(7)}, table.Rows[0].Cells)
	assert.Equal(t, rows[0].JSON, table.Rows[0].Object.Raw)

	table, err = New(t.Context(), kind, nil, rows, metav1.IncludeNone)
	require.NoError(t, err)
	assert.Equal(t, []string{"Cluster", "Name", "Age"}, headings(table))
	assert.Nil(t, table.Rows[0].Object.Raw)
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
	table, err := New(t.Context(), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}, text, []Row{{JSON: []byte(`{"kind": "Boat", "apiVersion": "example.com/v1",
		"metadata": {"name": "b"}, "spec": {"whole": 2147483648, "large": 9007199254740993, "fraction": 0.5, "list": [2147483648]}}`)}}, metav1.IncludeNone)
	require.NoError(t, err)
	assert.Equal(t, []any{
		"", "b", "2147483648", "9007199254740993", "0.5", "[2147483648]",
		int64(2147483648), int64(9007199254740993), int64(0), nil, 2147483648.0, 9007199254740992.0, 0.5, nil,
	}, table.Rows[0].Cells)
}

func TestABuiltInKindWithoutColumnsOfItsOwn(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	rows := []Row{{Cluster: "east", JSON: []byte(`{"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
		"metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}}`)}}
	table, err := New(t.Context(), kind, nil, rows, metav1.IncludeNone)
	require.NoError(t, err)
	assert.Equal(t, []string{"Cluster", "Name", "Created At"}, headings(table))
	assert.Equal(t, []any{"east", "r"}, table.Rows[0].Cells[:2])
}

func TestObjectsOfSeveralKinds(t *testing.T) {
	table, err := OfSeveralKinds([]Row{{JSON: []byte(`{"kind": "Deployment", "apiVersion": "apps/v1",
		"metadata": {"name": "web", "namespace": "default", "annotations": {"shadow.clusterpedia.io/cluster-name": "east"}}}`)}})
	require.NoError(t, err)
	assert.Equal(t, []string{"Cluster", "Group", "Version", "Kind", "Namespace", "Name", "Age"}, headings(table))
	assert.Equal(t, []any{"east", "apps", "v1", "Deployment", "default", "web", "<unknown>"}, table.Rows[0].Cells)
}

func TestIngressesHaveTheColumnsOfKubernetes(t *testing.T) {
	table, err := New(t.Context(), schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, nil, nil, metav1.IncludeNone)
	require.NoError(t, err)
	var names []string
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
	}
	assert.Equal(t, []string{"Cluster", "Name", "Class", "Hosts", "Address", "Ports", "Age"}, names)
}

// TestEachKindOfKubernetesHasItsColumns holds that no group is left out whose kinds kube-apiserver shows with columns.
func TestEachKindOfKubernetesHasItsColumns(t *testing.T) {
	foreign := sets.New("", "apidiscovery.k8s.io", "extensions", "imagepolicy.k8s.io", "meta.k8s.io") // without objects, but for the core group
	for kind := range clientgoscheme.Scheme.AllKnownTypes() {
		if !foreign.Has(kind.Group) && kind.Version != runtime.APIVersionInternal {
			assert.True(t, legacyscheme.Scheme.IsGroupRegistered(kind.Group), kind.Group)
		}
	}
	for kind, want := range map[schema.GroupVersionKind][]string{
		{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}:                         {"Cluster", "Name", "Service", "Available", "Age"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}: {"Cluster", "Name", "Webhooks", "Age"},
		{Group: "node.k8s.io", Version: "v1", Kind: "RuntimeClass"}:                                  {"Cluster", "Name", "Handler", "Age"},
	} {
		for _, rows := range [][]Row{nil, {{Cluster: "east", JSON: fmt.Appendf(nil, `{"kind": %q, "apiVersion": %q, "metadata": {"name": "x"}}`, kind.Kind, kind.GroupVersion())}}} {
			table, err := New(t.Context(), kind, nil, rows, metav1.IncludeNone)
			require.NoError(t, err)
			assert.Equal(t, want, headings(table))
			assert.NotNil(t, table.Rows, "an empty table has an empty list of rows")
			assert.Len(t, table.Rows, len(rows))
		}
	}
}
