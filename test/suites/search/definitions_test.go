// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestADefinitionThatLacksFieldsIsRestored does not run beside others, because the PediaClusters of all lack fields for a moment.
func TestADefinitionThatLacksFieldsIsRestored(t *testing.T) {
	addCluster(t, "keeps", kubeconfig(t, fleet.Admin()), map[string]any{"group": "", "resources": []any{"namespaces"}})
	patchCluster(t, "keeps", `{"spec": {"memberRBAC": {"username": "user.username"}}}`)
	awaitCondition(t, "keeps", v1alpha2.Ready, metav1.ConditionTrue, "")

	definitions := dynamic.NewForConfigOrDie(fleet.Admin()).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "pediaclusters.cluster.clusterpedia.io"
	path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "memberRBAC"}
	schemaOf := func(definition *unstructured.Unstructured) map[string]any {
		versions, _, err := unstructured.NestedFieldNoCopy(definition.Object, "spec", "versions")
		require.NoError(t, err)
		return versions.([]any)[0].(map[string]any)
	}
	_, err := definitions.Patch(t.Context(), name, types.JSONPatchType,
		[]byte(`[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/memberRBAC"}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	framework.Eventually(t, "search restores its definition", func(ctx context.Context) error {
		definition, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, has, _ := unstructured.NestedMap(schemaOf(definition), path...); !has {
			return errors.New("it lacks memberRBAC")
		}
		return nil
	})
	framework.Eventually(t, "the PediaCluster has its field", func(ctx context.Context) error {
		cluster, err := pediaClusters().Get(ctx, "keeps", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if has, _, _ := unstructured.NestedString(cluster.Object, "spec", "memberRBAC", "username"); has == "" {
			return errors.New("it lacks memberRBAC")
		}
		return nil
	})
	framework.Eventually(t, "search counts that", func(ctx context.Context) error {
		restored, err := fleet.Metric(ctx, "search-0", "tripod_search_definitions_restored_total")
		if err == nil && restored == 0 {
			err = errors.New("it counts none")
		}
		return err
	})
}
