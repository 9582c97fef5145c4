// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

const platformPolicy = `
apiVersion: policy.clusterpedia.io/v1alpha1
kind: ClusterImportPolicy
metadata: {name: platform}
spec:
  source:
    group: ""
    resource: configmaps
    selectorTemplate: '{{ eq .source.metadata.namespace "platform" }}'
  nameTemplate: "{{ .source.metadata.name }}"
  creationCondition: "true"
  template: |
    spec:
      authenticationFrom: {kubeconfig: {name: {{ .source.metadata.name | toJson }}, key: config}}
      syncResources: [{group: "", resources: [namespaces]}]
`

func TestAPolicyAddsTheClustersOfAPlatform(t *testing.T) {
	t.Parallel()
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: south, namespace: platform}}"))
	framework.Eventually(t, "search has defined its kinds", func(ctx context.Context) error { return fleet.Create(ctx, platformPolicy) })
	awaitCondition(t, "south", v1alpha2.Validated, metav1.ConditionFalse, "platform/south")
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: south, namespace: platform}, data: {config: %s}}",
		base64.StdEncoding.EncodeToString(kubeconfig(t, fleet.Admin())))))
	awaitCondition(t, "south", v1alpha2.Validated, metav1.ConditionFalse, "kubectl annotate secret --namespace platform south tripod-k8s.io/pediaclusters=south")
	allow(t, "south", "south")
	awaitList(t, resources+"/clusters/south/api/v1/namespaces?names=platform", "platform")
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	configMaps := client.CoreV1().ConfigMaps("platform")
	require.NoError(t, configMaps.Delete(t.Context(), "south", metav1.DeleteOptions{}))
	awaitClusters(t, false, "south")

	// No garbage collector runs here, so search removes what the policy has made.
	_, err = configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "south"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	awaitClusters(t, true, "south")
	policies := dynamic.NewForConfigOrDie(fleet.Admin()).Resource(schema.GroupVersionResource{Group: "policy.clusterpedia.io", Version: "v1alpha1", Resource: "clusterimportpolicies"})
	require.NoError(t, policies.Delete(t.Context(), "platform", metav1.DeleteOptions{}))
	awaitClusters(t, false, "south")
}
