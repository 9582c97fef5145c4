// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// partyPolicy has a template that says that somebody else has made its PediaClusters.
var partyPolicy = strings.Replace(fleetPolicy, "metadata: {labels: {from: fleet}}",
	`metadata: {labels: {from: fleet}, annotations: {a: b, tripod-k8s.io/party: other/namespace}}`, 1)

// TestAPediaClusterSaysWhoHasMadeIt holds whatever the template says, and if somebody changes it.
func TestAPediaClusterSaysWhoHasMadeIt(t *testing.T) {
	w := newWorld(t)
	w.put(policyResource, partyPolicy)
	w.putSecrets(oldConfig)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
	assert.Equal(t, map[string]string{"a": "b", v1alpha2.PartyAnnotation: "fleet/prod"}, w.cluster("fleet-prod-a").Annotations)
	_, err := w.client.Resource(clusterResource).Patch(t.Context(), "fleet-prod-a", types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"tripod-k8s.io/party": null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.until("it says so again", func() bool { return w.cluster("fleet-prod-a").Annotations[v1alpha2.PartyAnnotation] == "fleet/prod" })
}

// TestThePediaClustersOfANamespaceHaveALimit has more sources in a namespace than there may be PediaClusters of it.
func TestThePediaClustersOfANamespaceHaveALimit(t *testing.T) {
	w := newWorld(t)
	w.most = 2
	w.putSecrets(oldConfig)
	w.put(policyResource, fleetPolicy)
	for _, name := range []string{"b", "c"} {
		w.put(fleetResource, fleetCluster(name, "True"))
	}
	w.policySays("fleet", allGood)
	w.put(fleetResource, strings.Replace(fleetCluster("other", "True"), "namespace: prod", "namespace: test", 1))
	w.until("another namespace has its own", func() bool { return w.lifecycle("fleet-test-other") != nil })
	w.put(fleetResource, fleetCluster("a", "True"))
	policy := w.policySays("fleet", "Reconciling=False TooManyPediaClusters, Validated=True Success")
	assert.Contains(t, says(policy.Status.Conditions)+policy.Status.Conditions[0].Message+policy.Status.Conditions[1].Message, "none of 1 more sources")
	assert.Nil(t, w.lifecycle("fleet-prod-a"), "those that were first stay")
	refused, err := testutil.GetGaugeMetricValue(refusedSources)
	require.NoError(t, err)
	assert.InDelta(t, 1, refused, 0)

	require.NoError(t, w.client.Resource(fleetResource).Namespace("prod").Delete(t.Context(), "b", metav1.DeleteOptions{}))
	w.until("there is room", func() bool { return w.lifecycle("fleet-prod-a") != nil && w.lifecycle("fleet-prod-b") == nil })
	w.policySays("fleet", allGood)
	refused, err = testutil.GetGaugeMetricValue(refusedSources)
	require.NoError(t, err)
	assert.Zero(t, refused)
}

// TestASourceKeepsItsName has a source in an earlier namespace that makes the same name.
func TestASourceKeepsItsName(t *testing.T) {
	w := newWorld(t)
	w.putSecrets(oldConfig)
	w.put(policyResource, strings.Replace(fleetPolicy, `"fleet-{{ .source.metadata.namespace }}-{{ .source.metadata.name }}"`, "one", 1))
	w.put(fleetResource, fleetCluster("b", "True"))
	w.policySays("fleet", allGood)
	require.Equal(t, "prod", w.lifecycle("one").Spec.Source.Namespace)
	w.put(fleetResource, strings.Replace(fleetCluster("x", "True"), "namespace: prod", "namespace: attack", 1))
	policy := w.policySays("fleet", "Reconciling=False FailedReconcile, Validated=True Success")
	assert.Contains(t, policy.Status.Conditions[0].Message+policy.Status.Conditions[1].Message, "attack/x: the name one is that of prod/b already")
	assert.Equal(t, "prod", w.lifecycle("one").Spec.Source.Namespace)

	require.NoError(t, w.client.Resource(fleetResource).Namespace("prod").Delete(t.Context(), "b", metav1.DeleteOptions{}))
	w.until("the name is free", func() bool { return w.lifecycle("one") != nil && w.lifecycle("one").Spec.Source.Namespace == "attack" })
}
