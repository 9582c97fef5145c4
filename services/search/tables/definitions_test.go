// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package tables

import (
	"testing"

	"github.com/stretchr/testify/assert"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestDefinitionsHaveTheColumnsOfKubernetes(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	table, of := row(t, kind, nil, metav1.IncludeNone, `{"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
		"metadata": {"name": "boats.example.com", "creationTimestamp": "2026-11-26T20:00:00Z"}, "spec": {"group": "example.com", "scope": "Cluster",
		"names": {"kind": "Boat", "shortNames": ["bo", "bt"]},
		"versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v1beta1", "served": true}, {"name": "v1alpha1"}]},
		"status": {"conditions": [{"type": "Established", "status": "True"}]}}`)
	assert.Equal(t, []string{"Cluster", "Name", "Scope", "Versions", "Created At"}, headings(table))
	assert.Equal(t, []any{
		"east", "boats.example.com", "Cluster", "v1(storage),v1beta1", "2026-11-26T20:00:00Z", "example.com", "Boat", "bo,bt", true,
	}, of.Cells)
}
