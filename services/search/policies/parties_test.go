// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
)

// partyPolicy has a template whose PediaClusters claim the share of others.
var partyPolicy = strings.Replace(fleetPolicy, "metadata: {labels: {from: fleet}}",
	"metadata: {labels: {from: fleet}}\n    status: {party: other/namespace}", 1)

// TestAPediaClusterSaysWhoHasMadeIt has a writer of its status name another maker.
func TestAPediaClusterSaysWhoHasMadeIt(t *testing.T) {
	w := newWorld(t)
	w.put(policyResource, partyPolicy)
	w.putSecrets(oldConfig)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
	assert.Equal(t, "fleet/prod", w.cluster("fleet-prod-a").Status.Party, "at once")
	w.patchStatus("fleet-prod-a", `{"status": {"party": null}}`)
	w.until("it says so again", func() bool { return w.cluster("fleet-prod-a").Status.Party == "fleet/prod" })
}

// patchStatus changes the status of a PediaCluster.
func (w *world) patchStatus(name, patch string) {
	w.Helper()
	_, err := w.client.Resource(clusterResource).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	require.NoError(w, err)
}

// TestOnlyWhatAPolicyMakesHasItsShare has others name a policy as their maker. All of them do so in their status, which search corrects.
func TestOnlyWhatAPolicyMakesHasItsShare(t *testing.T) {
	w := newWorld(t)
	w.put(policyResource, fleetPolicy)
	w.putSecrets(oldConfig)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
	cluster := func(name, metadata string) {
		w.put(clusterResource, `{apiVersion: cluster.clusterpedia.io/v1alpha2, kind: PediaCluster, metadata: {name: `+name+`, `+metadata+`},
			spec: {apiserver: "https://x", syncResources: []}, status: {party: fleet/prod, version: v1}}`)
	}
	owner := func(lifecycle, uid string) string {
		return `ownerReferences: [{apiVersion: policy.clusterpedia.io/v1alpha1, kind: PediaClusterLifecycle, name: ` + lifecycle + `, uid: "` + uid + `"}]`
	}
	cluster("annotated", "annotations: {tripod-k8s.io/party: fleet/prod, tripod-k8s.io/adopted-by: fleet}")
	cluster("owned", owner("fleet-prod-a", string(w.lifecycle("fleet-prod-a").UID)))
	for _, name := range []string{"forged", "forged-and-adopted"} {
		w.put(lifecycleResource, ofSource(name, "a"))
	}
	cluster("forged", owner("forged", "uid-forged"))
	cluster("forged-and-adopted", "annotations: {tripod-k8s.io/adopted-by: fleet}")
	all := []string{"annotated", "owned", "forged", "forged-and-adopted"}
	w.until("none of them has the share", func() bool {
		return !slices.ContainsFunc(all, func(name string) bool {
			cluster := w.cluster(name)
			return cluster != nil && cluster.Status.Party != ""
		})
	})
	assert.Equal(t, "v1", w.cluster("annotated").Status.Version, "the rest of the status is as it was")
	assert.Equal(t, "fleet/prod", w.cluster("fleet-prod-a").Status.Party)
}

// TestAnAdoptedPediaClusterHasTheShareOfItsPolicy holds as long as it is adopted.
func TestAnAdoptedPediaClusterHasTheShareOfItsPolicy(t *testing.T) {
	w := newWorld(t)
	w.put(clusterResource, `{apiVersion: cluster.clusterpedia.io/v1alpha2, kind: PediaCluster, metadata: {name: fleet-prod-a},
		spec: {apiserver: "https://x", syncResources: []}}`)
	w.put(policyResource, fleetPolicy)
	w.putSecrets(oldConfig)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.lifecycleSays("fleet-prod-a", "Created=True PediaClusterExisted, Updating=False PediaClusterNotOwned")
	assert.Empty(t, w.cluster("fleet-prod-a").Status.Party)
	adopted := func(by string) {
		_, err := w.client.Resource(clusterResource).Patch(t.Context(), "fleet-prod-a", types.MergePatchType,
			[]byte(`{"metadata": {"annotations": {"tripod-k8s.io/adopted-by": `+by+`}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	adopted(`"fleet"`)
	w.until("it has the share", func() bool { return w.cluster("fleet-prod-a").Status.Party == "fleet/prod" })
	adopted("null")
	w.until("it is by itself", func() bool { return w.cluster("fleet-prod-a").Status.Party == "" })
}

// TestNoSourceLeavesItsParty has templates fail, and too many sources: its PediaClusters would have a share each otherwise.
func TestNoSourceLeavesItsParty(t *testing.T) {
	w := newWorld(t)
	w.putSecrets(oldConfig)
	w.put(policyResource, fleetPolicy)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
	for name, change := range map[string]func(){
		"the name cannot be made": func() {
			w.put(policyResource, strings.Replace(fleetPolicy, `"fleet-{{ .source`, `"Fleet {{ .source`, 1))
		},
		"the policy is wrong": func() {
			w.put(policyResource, strings.Replace(fleetPolicy, `{{ .source.metadata.name }}"`, `{{ .source"`, 1))
		},
		"the sources are not read": func() {
			w.put(policyResource, strings.Replace(fleetPolicy, "resource: clusters", "resource: others", 1))
		},
	} {
		change()
		w.until(name, func() bool {
			policy := read[v1alpha1.ClusterImportPolicy](w, policyResource, "fleet")
			return strings.Contains(says(policy.Status.Conditions), "=False")
		})
		w.until("a pass later", func() bool { return true })
		require.NotNil(t, w.cluster("fleet-prod-a"), name)
		assert.Equal(t, "fleet/prod", w.cluster("fleet-prod-a").Status.Party, name)
		w.put(policyResource, fleetPolicy)
		w.policySays("fleet", allGood)
	}
}

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

// ofSource returns a lifecycle that names the policy fleet as its maker, and a source.
func ofSource(name, source string) string {
	return strings.Replace(forged(name, controlledBy("fleet", "uid-fleet")), `source: {group: "", version: v1, resource: secrets, namespace: prod, name: config}`,
		"source: {group: fleet.example.com, version: v1, resource: clusters, namespace: prod, name: "+source+"}", 1)
}

// TestLifecyclesOfOthersTakeNoRoom has a user write more than a policy may make, also of a source that is there, whenever search removes them.
func TestLifecyclesOfOthersTakeNoRoom(t *testing.T) {
	w := newWorld(t)
	w.most = 1
	w.putSecrets(oldConfig)
	removed := 0
	w.client.PrependReactor("delete", "pediaclusterlifecycles", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName()
		removed++
		return true, nil, apierrors.NewConflict(lifecycleResource.GroupResource(), name, errors.New("it was written again"))
	})
	for i, source := range []string{"a", "a", "other", "other"} {
		w.put(lifecycleResource, ofSource(fmt.Sprint("forged", i), source))
	}
	w.put(policyResource, fleetPolicy)
	w.until("search would remove them", func() bool { return removed >= 4 })
	w.put(fleetResource, fleetCluster("a", "True"))
	w.until("the policy makes its own", func() bool { return w.lifecycle("fleet-prod-a") != nil })
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

// TestASourceTakesOverNoClusterOfAnotherNamespace has a writer of lifecycles leave the PediaCluster of a source to another one with its name.
func TestASourceTakesOverNoClusterOfAnotherNamespace(t *testing.T) {
	w := newWorld(t)
	w.putSecrets(oldConfig)
	w.put(policyResource, strings.Replace(fleetPolicy, `"fleet-{{ .source.metadata.namespace }}-{{ .source.metadata.name }}"`, "one", 1))
	w.put(fleetResource, fleetCluster("b", "True"))
	w.until("the cluster is there", func() bool { return w.cluster("one") != nil })
	w.until("it has its party", func() bool { return w.cluster("one").Status.Party == "fleet/prod" })
	w.put(fleetResource, strings.Replace(fleetCluster("x", "True"), "namespace: prod", "namespace: attack", 1))
	w.policySays("fleet", "Reconciling=False FailedReconcile, Validated=True Success")
	patched := 0
	w.client.PrependReactor("patch", "pediaclusters", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if strings.Contains(string(action.(clienttesting.PatchAction).GetPatch()), `"spec"`) {
			patched++
		}
		return false, nil, nil
	})
	w.changeCluster("one", `{"metadata": {"ownerReferences": null}}`)
	require.NoError(t, w.client.Resource(lifecycleResource).Delete(t.Context(), "one", metav1.DeleteOptions{}))
	w.until("the name is that of the other source", func() bool { return w.lifecycle("one") != nil && w.lifecycle("one").Spec.Source.Namespace == "attack" })
	w.until("the cluster is gone", func() bool { return w.cluster("one") == nil })
	assert.Zero(t, patched, "the cluster of the first source is changed")
}

// ofNamespace returns metadata that names a controller of another kind, which lives.
const ofNamespace = `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x", "controller": true}]}}`

// changeLifecycle has a writer of lifecycles change one.
func (w *world) changeLifecycle(name, patch string) {
	w.Helper()
	_, err := w.client.Resource(lifecycleResource).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w, err)
}

// changeCluster has a writer of PediaClusters, or the garbage collector, change one.
func (w *world) changeCluster(name, patch string) {
	w.Helper()
	_, err := w.client.Resource(clusterResource).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w, err)
}

// partiesOf returns the parties that search has written for a PediaCluster.
func (w *world) partiesOf(name string) (all []string) {
	for _, action := range w.client.Actions() {
		patch, ok := action.(clienttesting.PatchAction)
		if ok && patch.GetResource() == clusterResource && patch.GetSubresource() == "status" && patch.GetName() == name {
			all = append(all, string(patch.GetPatch()))
		}
	}
	return all
}

// TestAnotherControllerTakesNoClusterFromItsParty has a writer of lifecycles name another maker than the policy.
func TestAnotherControllerTakesNoClusterFromItsParty(t *testing.T) {
	for name, kept := range map[string]bool{"search may delete it": false, "it is written again": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(policyResource, fleetPolicy)
			w.putSecrets(oldConfig)
			w.put(fleetResource, fleetCluster("a", "True"))
			w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
			first := w.lifecycle("fleet-prod-a").UID
			tried := 0
			w.client.PrependReactor("delete", "pediaclusterlifecycles", func(action clienttesting.Action) (bool, runtime.Object, error) {
				tried++
				preconditions := action.(clienttesting.DeleteActionImpl).GetDeleteOptions().Preconditions
				assert.Equal(t, first, *preconditions.UID)
				return kept, nil, nil
			})
			w.changeLifecycle("fleet-prod-a", ofNamespace)
			w.until("search deletes it", func() bool { return tried > 0 })
			if w.until("a pass later", func() bool { return true }); kept {
				require.NotNil(t, w.cluster("fleet-prod-a"))
				assert.Equal(t, "fleet/prod", w.cluster("fleet-prod-a").Status.Party)
			} else {
				w.until("the policy makes both anew", func() bool {
					lifecycle, cluster := w.lifecycle("fleet-prod-a"), w.cluster("fleet-prod-a")
					return lifecycle != nil && lifecycle.UID != first && cluster != nil && cluster.OwnerReferences[0].UID == lifecycle.UID
				})
				w.until("its party", func() bool { return w.cluster("fleet-prod-a").Status.Party == "fleet/prod" })
				w.policySays("fleet", allGood)
				w.putSecrets(newConfig)
				w.until("it follows its credentials", func() bool { return string(w.cluster("fleet-prod-a").Spec.Kubeconfig) == "?????>" })
			}
			for _, patch := range w.partiesOf("fleet-prod-a") {
				assert.JSONEq(t, `{"status": {"party": "fleet/prod"}}`, patch, "it was by itself for a while")
			}
		})
	}
}

// TestALifecycleKeepsNoClusterWithoutASource has a writer of lifecycles take one from its policy, and its source go.
func TestALifecycleKeepsNoClusterWithoutASource(t *testing.T) {
	for name, take := range map[string]func(*world){
		"no controller":      func(w *world) { w.changeLifecycle("fleet-prod-a", `{"metadata": {"ownerReferences": null}}`) },
		"another controller": func(w *world) { w.changeLifecycle("fleet-prod-a", ofNamespace) },
		"a finalizer": func(w *world) {
			w.client.PrependReactor("delete", "pediaclusterlifecycles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
			w.changeLifecycle("fleet-prod-a", `{"metadata": {"finalizers": ["x/y"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}`)
		},
		"deleted without the cluster": func(w *world) {
			first := w.lifecycle("fleet-prod-a").UID
			w.changeCluster("fleet-prod-a", `{"metadata": {"ownerReferences": null}}`)
			require.NoError(w, w.client.Resource(lifecycleResource).Delete(w.Context(), "fleet-prod-a", metav1.DeleteOptions{}))
			w.until("the policy makes another one", func() bool { l := w.lifecycle("fleet-prod-a"); return l != nil && l.UID != first })
			w.until("a pass later", func() bool { return true })
			require.NotNil(w, w.cluster("fleet-prod-a"))
			assert.Equal(w, "fleet/prod", w.cluster("fleet-prod-a").Status.Party)
			w.putSecrets(newConfig)
			w.until("it follows its credentials", func() bool { return string(w.cluster("fleet-prod-a").Spec.Kubeconfig) == "?????>" })
		},
		"deleted without the cluster, and not made again": func(w *world) {
			w.client.PrependReactor("create", "pediaclusterlifecycles", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("refused")
			})
			w.changeCluster("fleet-prod-a", `{"metadata": {"ownerReferences": null}}`)
			require.NoError(w, w.client.Resource(lifecycleResource).Delete(w.Context(), "fleet-prod-a", metav1.DeleteOptions{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putSecrets(oldConfig)
			w.put(policyResource, fleetPolicy)
			w.put(fleetResource, fleetCluster("a", "True"))
			w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
			take(w)
			for _, patch := range w.partiesOf("fleet-prod-a") {
				assert.JSONEq(t, `{"status": {"party": "fleet/prod"}}`, patch, "it was by itself for a while")
			}
			require.NoError(t, w.client.Resource(fleetResource).Namespace("prod").Delete(t.Context(), "a", metav1.DeleteOptions{}))
			w.until("the cluster is gone", func() bool { return w.cluster("fleet-prod-a") == nil })
		})
	}
}

// TestAClusterThatIsTakenOverStays is one whose writer has removed the fields by which search made it.
func TestAClusterThatIsTakenOverStays(t *testing.T) {
	w := newWorld(t)
	w.putSecrets(oldConfig)
	w.put(policyResource, fleetPolicy)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
	w.changeCluster("fleet-prod-a", `{"metadata": {"ownerReferences": null, "annotations": {"tripod-k8s.io/made-by": null}}}`)
	w.until("it is by itself", func() bool { return w.cluster("fleet-prod-a").Status.Party == "" })
	require.NoError(t, w.client.Resource(fleetResource).Namespace("prod").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	w.until("its lifecycle is gone", func() bool { return w.lifecycle("fleet-prod-a") == nil })
	w.until("a pass later", func() bool { return true })
	assert.NotNil(t, w.cluster("fleet-prod-a"))
}

// TestATemplateHandsNoClusterOver has a template write the annotations of people.
func TestATemplateHandsNoClusterOver(t *testing.T) {
	w := newWorld(t)
	w.putSecrets(oldConfig)
	w.put(policyResource, strings.Replace(fleetPolicy, "metadata: {labels: {from: fleet}}",
		"metadata: {annotations: {tripod-k8s.io/adopted-by: other, tripod-k8s.io/made-by: other, a: b}}", 1))
	w.put(fleetResource, fleetCluster("a", "True"))
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
	assert.Equal(t, map[string]string{"tripod-k8s.io/made-by": "fleet/prod", "a": "b"}, w.cluster("fleet-prod-a").Annotations)
}

// TestClustersOfAPartyCountWhateverTheirLifecyclesSay has templates fail, so that search does not know what is made of one source.
// A writer of lifecycles claims that others are made of it, too, and removes their sources.
func TestClustersOfAPartyCountWhateverTheirLifecyclesSay(t *testing.T) {
	w := newWorld(t)
	w.most = 2
	w.putSecrets(oldConfig)
	w.put(policyResource, strings.Replace(fleetPolicy, "resource: clusters,", `resource: clusters, selectorTemplate: '{{ ne .source.spec.secret "" }}',`, 1))
	for _, name := range []string{"a", "b"} {
		w.put(fleetResource, fleetCluster(name, "True"))
	}
	w.until("there are as many as may be", func() bool { return w.cluster("fleet-prod-a") != nil && w.cluster("fleet-prod-b") != nil })
	w.put(fleetResource, strings.Replace(fleetCluster("a", "True"), "secret: pointer", "secret: {}", 1))
	w.changeLifecycle("fleet-prod-b", `{"spec": {"source": {"name": "a"}}}`)
	require.NoError(t, w.client.Resource(fleetResource).Namespace("prod").Delete(t.Context(), "b", metav1.DeleteOptions{}))
	w.put(fleetResource, fleetCluster("c", "True"))
	policy := func() string {
		p := read[v1alpha1.ClusterImportPolicy](w, policyResource, "fleet")
		return fmt.Sprint(p.Status.Conditions)
	}
	w.until("the template fails", func() bool { return strings.Contains(policy(), "prod/a: ") })
	for range 3 {
		w.until("a pass later", func() bool { return true })
	}
	assert.Nil(t, w.cluster("fleet-prod-c"), "there is one more than may be")
	assert.Equal(t, "fleet/prod", w.cluster("fleet-prod-b").Status.Party)
}

// TestAPolicyThatGoesAloneLeavesItsClusters is a policy that is deleted with --cascade=orphan.
func TestAPolicyThatGoesAloneLeavesItsClusters(t *testing.T) {
	w := newWorld(t)
	w.putSecrets(oldConfig)
	w.put(policyResource, fleetPolicy)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
	w.changeLifecycle("fleet-prod-a", `{"metadata": {"ownerReferences": null}}`)
	require.NoError(t, w.client.Resource(policyResource).Delete(t.Context(), "fleet", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { // the API server would refuse to delete a lifecycle that has changed
		s, err := w.read()
		return err == nil && len(s.policies) == 0 && len(s.lifecycles["fleet-prod-a"].OwnerReferences) == 0
	}, time.Minute, time.Millisecond)
	w.until("it is by itself", func() bool { return w.cluster("fleet-prod-a").Status.Party == "" })
	w.until("a pass later", func() bool { return true })
	assert.NotNil(t, w.cluster("fleet-prod-a"))
}
