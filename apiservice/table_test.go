// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTablesHaveColumnsBetweenNameAndAge(t *testing.T) {
	columns := newTable(schema.GroupResource{Resource: "deployments"}, []Column[*appsv1.Deployment]{
		{Name: "Ready", Type: "integer", Value: func(d *appsv1.Deployment) any { return d.Status.ReadyReplicas }},
		{Name: "Kind", Wide: true, Value: func(*appsv1.Deployment) any { return "web" }},
	})
	old := deployment(1, 2)
	old.CreationTimestamp = metav1.NewTime(time.Now().Add(-3 * time.Hour))
	for name, object := range map[string]runtime.Object{"an object": old, "a list": &appsv1.DeploymentList{Items: []appsv1.Deployment{*old}}} {
		t.Run(name, func(t *testing.T) {
			table, err := columns.ConvertToTable(t.Context(), object, &metav1.TableOptions{})
			require.NoError(t, err)
			var names []string
			for _, c := range table.ColumnDefinitions {
				names = append(names, c.Name+" "+c.Type)
			}
			assert.Equal(t, []string{"Name string", "Ready integer", "Kind string", "Age string"}, names)
			require.Len(t, table.Rows, 1)
			assert.Equal(t, []any{"web", int32(2), "web", "3h"}, table.Rows[0].Cells)

			table, err = columns.ConvertToTable(t.Context(), object, &metav1.TableOptions{NoHeaders: true})
			require.NoError(t, err)
			assert.Empty(t, table.ColumnDefinitions)
		})
	}
}
