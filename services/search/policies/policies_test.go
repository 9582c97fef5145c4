// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/templates"
)

func TestMain(m *testing.M) {
	templates.InterpretIfAsked()
	os.Exit(m.Run())
}

var (
	secretResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	fleetResource  = schema.GroupVersionResource{Group: "fleet.example.com", Version: "v1", Resource: "clusters"}
)

// world is a cluster with policies, whose passes a test runs.
type world struct {
	*testing.T
	*Policies
	client *fake.FakeDynamicClient
}

func newWorld(t *testing.T) *world {
	kinds := map[schema.GroupVersionResource]string{
		policyResource: "ClusterImportPolicyList", lifecycleResource: "PediaClusterLifecycleList", clusterResource: "PediaClusterList",
		secretResource: "SecretList", fleetResource: "ClusterList",
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		gvr := action.GetResource()
		w, err := watchFromNow(client.Tracker(), gvr, gvr.GroupVersion().WithKind(strings.TrimSuffix(kinds[gvr], "List")), action.GetNamespace())
		return true, w, err
	})
	giveUIDs(client)
	verbs := []string{"list", "watch"}
	questions := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: verbs}, {Name: "bindings", Verbs: []string{"create"}}}},
		{GroupVersion: "fleet.example.com/v1", APIResources: []metav1.APIResource{{Name: "clusters", Kind: "Cluster", Namespaced: true, Verbs: verbs}}},
		{GroupVersion: "fleet.example.com/v1beta1", APIResources: []metav1.APIResource{{Name: "clusters", Kind: "Cluster", Namespaced: true, Verbs: verbs}}},
	}}}
	w := &world{T: t, Policies: New(client, questions, hub.StandardMemory(), templates.Standard, StandardMost, func() bool { return true }), client: client}
	t.Cleanup(w.objects.Stop)
	t.Cleanup(w.templates.Sweep)
	return w
}

// giveUIDs gives each object that is created without a UID its own, as an API server does.
func giveUIDs(client *fake.FakeDynamicClient) {
	created := 0
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if object, ok := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured); ok && object.GetUID() == "" {
			created++
			object.SetUID(types.UID(fmt.Sprint("uid-created-", created)))
		}
		return false, nil, nil
	})
}

// watchFromNow begins with the objects that exist. The fake client's own watches miss what is written between a list and its watch.
func watchFromNow(tracker clienttesting.ObjectTracker, gvr schema.GroupVersionResource, kind schema.GroupVersionKind, namespace string) (watch.Interface, error) {
	live, err := tracker.Watch(gvr, namespace)
	if err != nil {
		return nil, err
	}
	list, err := tracker.List(gvr, kind, namespace)
	if err != nil {
		return nil, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event, len(objects))
	for _, object := range objects {
		events <- watch.Event{Type: watch.Added, Object: object}
	}
	proxy := watch.NewProxyWatcher(events)
	go func() {
		defer live.Stop()
		for {
			select {
			case <-proxy.StopChan():
				return
			case event := <-live.ResultChan():
				select {
				case <-proxy.StopChan():
					return
				case events <- event:
				}
			}
		}
	}()
	return proxy, nil
}

// put creates an object from YAML, or changes it.
func (w *world) put(resource schema.GroupVersionResource, text string) {
	w.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(w, yaml.Unmarshal([]byte(text), &object.Object))
	object.SetUID(types.UID("uid-" + object.GetName()))
	client := w.client.Resource(resource).Namespace(object.GetNamespace())
	if _, err := client.Create(w.Context(), object, metav1.CreateOptions{}); err != nil {
		_, err = client.Update(w.Context(), object, metav1.UpdateOptions{})
		require.NoError(w, err)
	}
}

// until runs passes until a condition holds.
func (w *world) until(what string, holds func() bool) {
	w.Helper()
	require.Eventually(w, func() bool {
		w.reconcile(w.Context())
		w.objects.Sweep()
		w.templates.Sweep()
		return holds()
	}, time.Minute, 10*time.Millisecond, what)
}

func read[T any](w *world, resource schema.GroupVersionResource, name string) *T {
	object, err := w.client.Resource(resource).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	typed := new(T)
	require.NoError(w, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed))
	return typed
}

func (w *world) cluster(name string) *v1alpha2.PediaCluster {
	return read[v1alpha2.PediaCluster](w, clusterResource, name)
}

func (w *world) lifecycle(name string) *v1alpha1.PediaClusterLifecycle {
	return read[v1alpha1.PediaClusterLifecycle](w, lifecycleResource, name)
}

// says returns "TYPE=STATUS REASON" of conditions, in the order of types.
func says(conditions []metav1.Condition) string {
	all := map[string]string{}
	for _, c := range conditions {
		all[c.Type] = fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, all[name])
	}
	return strings.Join(texts, ", ")
}

// policySays waits for the conditions of a policy.
func (w *world) policySays(name, want string) *v1alpha1.ClusterImportPolicy {
	w.Helper()
	var policy *v1alpha1.ClusterImportPolicy
	w.until(name+" says "+want, func() bool {
		policy = read[v1alpha1.ClusterImportPolicy](w, policyResource, name)
		return policy != nil && says(policy.Status.Conditions) == want
	})
	return policy
}

func (w *world) lifecycleSays(name, want string) *v1alpha1.PediaClusterLifecycle {
	w.Helper()
	var lifecycle *v1alpha1.PediaClusterLifecycle
	w.until(name+" says "+want, func() bool {
		lifecycle = w.lifecycle(name)
		return lifecycle != nil && says(lifecycle.Status.Conditions) == want
	})
	return lifecycle
}

const allGood = "Reconciling=True ReconcileSourceResourceAndLifecycle, Validated=True Success"

// fleetPolicy is for a platform that keeps a kubeconfig beside each of its clusters.
const fleetPolicy = `
apiVersion: policy.clusterpedia.io/v1alpha1
kind: ClusterImportPolicy
metadata: {name: fleet}
spec:
  source: {group: fleet.example.com, resource: clusters, versions: []}
  references:
  - key: pointer
    group: ""
    resource: secrets
    namespaceTemplate: "{{ .source.metadata.namespace }}"
    nameTemplate: "{{ .source.spec.secret }}"
  - key: kubeconfig
    group: ""
    resource: secrets
    namespaceTemplate: "{{ .references.pointer.metadata.namespace }}"
    nameTemplate: "{{ .references.pointer.data.next | b64dec }}"
  nameTemplate: "fleet-{{ .source.metadata.namespace }}-{{ .source.metadata.name }}"
  template: |
    metadata: {labels: {from: fleet}}
    spec:
      kubeconfig: "{{ .references.kubeconfig.data.value }}"
      syncResources: [{group: "", resources: [pods]}, {group: apps, resources: ["*"]}]
      syncResourcesRefName: ""
  creationCondition: |
    {{ range .source.status.conditions }}{{ if eq .type "Ready" }}
      {{ if eq .status "True" }} True {{ end }}
    {{ end }}{{ end }}
`

// kubeconfigs in base64 have a +, which a template for HTML would escape.
const (
	oldConfig = "Pj4+Pj4+"
	newConfig = "Pz8/Pz8+"
)

func fleetCluster(name, ready string) string {
	return fmt.Sprintf(`{apiVersion: fleet.example.com/v1, kind: Cluster, metadata: {name: %s, namespace: prod}, spec: {secret: pointer},
		status: {conditions: [{type: Other, status: "True"}, {type: Ready, status: "%s"}]}}`, name, ready)
}

func (w *world) putSecrets(config string) {
	w.put(secretResource, `{apiVersion: v1, kind: Secret, metadata: {name: pointer, namespace: prod}, data: {next: Y29uZmln}}`) // config
	w.put(secretResource, `{apiVersion: v1, kind: Secret, metadata: {name: config, namespace: prod}, data: {value: "`+config+`"}}`)
}

func TestAPolicyMakesClustersOfSourcesAndFollowsThem(t *testing.T) {
	w := newWorld(t)
	w.put(policyResource, fleetPolicy)
	w.put(fleetResource, fleetCluster("a", "False"))
	w.policySays("fleet", allGood)
	lifecycle := w.lifecycleSays("fleet-prod-a", "Created=False ReferenceResourceNotFound")
	assert.Equal(t, v1alpha1.Object{Group: "fleet.example.com", Version: "v1", Resource: "clusters", Namespace: "prod", Name: "a"}, lifecycle.Spec.Source)
	assert.Equal(t, "v1", lifecycle.Spec.References[1].Version)
	assert.True(t, metav1.IsControlledBy(lifecycle, &metav1.ObjectMeta{UID: "uid-fleet"}))

	w.putSecrets(oldConfig)
	lifecycle = w.lifecycleSays("fleet-prod-a", "Created=False WaitCreationCondition")
	assert.Equal(t, []string{"pointer", "config"}, []string{lifecycle.Status.References[0].Name, lifecycle.Status.References[1].Name})
	assert.Nil(t, w.cluster("fleet-prod-a"))

	w.put(fleetResource, fleetCluster("a", "True"))
	w.lifecycleSays("fleet-prod-a", "Created=True PediaClusterCreated, Updating=True PediaClusterUpdated")
	cluster := w.cluster("fleet-prod-a")
	assert.Equal(t, ">>>>>>", string(cluster.Spec.Kubeconfig))
	assert.Equal(t, map[string]string{"from": "fleet"}, cluster.Labels)
	assert.Equal(t, v1alpha1.LifecycleKind, cluster.OwnerReferences[0].Kind)
	assert.Len(t, cluster.Spec.SyncResources, 2)

	// People may change what is copied. The credentials follow the Secret, whatever the creation condition makes now.
	_, err := w.client.Resource(clusterResource).Patch(t.Context(), "fleet-prod-a", types.MergePatchType, []byte(`{"spec": {"syncResources": []}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.put(fleetResource, fleetCluster("a", "False"))
	w.putSecrets(newConfig)
	w.until("the new kubeconfig", func() bool { return string(w.cluster("fleet-prod-a").Spec.Kubeconfig) == "?????>" })
	assert.Empty(t, w.cluster("fleet-prod-a").Spec.SyncResources)

	require.NoError(t, w.client.Resource(fleetResource).Namespace("prod").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	w.until("the source is gone, and so is the cluster", func() bool { return w.lifecycle("fleet-prod-a") == nil && w.cluster("fleet-prod-a") == nil })
}

func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	w := newWorld(t)
	w.put(policyResource, fleetPolicy)
	w.putSecrets(oldConfig)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.lifecycleSays("fleet-prod-a", "Created=True PediaClusterCreated, Updating=True PediaClusterUpdated")
	writes := func() (n int) {
		for _, action := range w.client.Actions() {
			if !slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
				n++
			}
		}
		return n
	}
	quiet := 0
	before := -1
	w.until("five passes without a write", func() bool {
		if quiet++; writes() != before {
			before, quiet = writes(), 0
		}
		return quiet == 5
	})
}

func TestWithoutAPolicyWhatItMadeGoes(t *testing.T) {
	w := newWorld(t)
	w.put(policyResource, fleetPolicy)
	w.putSecrets(oldConfig)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.put(clusterResource, `{apiVersion: cluster.clusterpedia.io/v1alpha2, kind: PediaCluster, metadata: {name: mine}, spec: {apiserver: "https://x", syncResources: []}}`)
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
	require.NoError(t, w.client.Resource(policyResource).Delete(t.Context(), "fleet", metav1.DeleteOptions{}))
	w.until("the cluster is gone", func() bool { return w.lifecycle("fleet-prod-a") == nil && w.cluster("fleet-prod-a") == nil })
	assert.NotNil(t, w.cluster("mine"))
}

func TestAClusterThatWasThereBeforeStays(t *testing.T) {
	w := newWorld(t)
	w.put(clusterResource, `{apiVersion: cluster.clusterpedia.io/v1alpha2, kind: PediaCluster, metadata: {name: fleet-prod-a}, spec: {apiserver: "https://x", syncResources: []}}`)
	w.put(policyResource, fleetPolicy)
	w.putSecrets(oldConfig)
	w.put(fleetResource, fleetCluster("a", "True"))
	// Its writer decides which object has its address.
	lifecycle := w.lifecycleSays("fleet-prod-a", "Created=True PediaClusterExisted, Updating=False PediaClusterNotOwned")
	assert.Contains(t, lifecycle.Status.Conditions[1].Message, "tripod-k8s.io/adopted-by=fleet")
	assert.Equal(t, v1alpha2.ClusterSpec{APIServer: "https://x", SyncResources: []v1alpha2.GroupResources{}}, w.cluster("fleet-prod-a").Spec)
	_, err := w.client.Resource(clusterResource).Patch(t.Context(), "fleet-prod-a", types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"tripod-k8s.io/adopted-by": "fleet"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.lifecycleSays("fleet-prod-a", "Created=True PediaClusterExisted, Updating=True PediaClusterUpdated")
	w.until("it has the credentials", func() bool { return string(w.cluster("fleet-prod-a").Spec.Kubeconfig) == ">>>>>>" })
	require.NoError(t, w.client.Resource(fleetResource).Namespace("prod").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	w.until("the lifecycle is gone", func() bool { return w.lifecycle("fleet-prod-a") == nil })
	w.until("a pass later", func() bool { return true })
	assert.NotNil(t, w.cluster("fleet-prod-a"))
}

// certificatePolicy is for a platform whose clusters are Secrets.
const certificatePolicy = `
apiVersion: policy.clusterpedia.io/v1alpha1
kind: ClusterImportPolicy
metadata: {name: certificates}
spec:
  source:
    group: ""
    resource: secrets
    selectorTemplate: |
      {{ if hasPrefix "vc-" .source.metadata.name }}
        {{ $ca := get .source.data "ca.crt" }}
        {{/* all parts must be there */}}
        {{ and (ne $ca "") (hasKey .source.data "tls.crt") (contains "x" (b64dec .source.data.endpoint)) }}
      {{ end }}
  nameTemplate: 'vc-{{ trimPrefix "vc-" .source.metadata.name }}'
  template: |
    spec:
      apiserver: {{ index .source.data "endpoint" | b64dec }}
      caData: {{ index .source.data "ca.crt" }}
      certData: {{ index .source.data "tls.crt" }}
      keyData: {{ index .source.data "tls.key" }}
      syncResources: []
  creationCondition: "true"
`

func TestASecretCanBeASource(t *testing.T) {
	w := newWorld(t)
	w.put(policyResource, certificatePolicy)
	w.put(secretResource, `{apiVersion: v1, kind: Secret, metadata: {name: other, namespace: vc}, data: {}}`)
	w.put(secretResource, `{apiVersion: v1, kind: Secret, metadata: {name: vc-a, namespace: vc}, data: {endpoint: aHR0cHM6Ly94, ca.crt: Y2E=, tls.crt: Y2VydA==, tls.key: a2V5}}`)
	w.until("the cluster is there", func() bool { return w.cluster("vc-a") != nil })
	spec := w.cluster("vc-a").Spec
	assert.Equal(t, []string{"https://x", "ca", "cert", "key"}, []string{spec.APIServer, string(spec.CAData), string(spec.CertData), string(spec.KeyData)})
	w.policySays("certificates", allGood)
	lifecycles, err := w.client.Resource(lifecycleResource).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, lifecycles.Items, 1)

	// A source whose template fails keeps what was made of it.
	w.put(secretResource, `{apiVersion: v1, kind: Secret, metadata: {name: vc-a, namespace: vc}, data: {endpoint: 1, ca.crt: Y2E=, tls.crt: Y2VydA==}}`)
	policy := w.policySays("certificates", "Reconciling=False FailedReconcile, Validated=True Success")
	assert.Contains(t, meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.Reconciling).Message, "vc/vc-a: ")
	assert.NotNil(t, w.cluster("vc-a"))
	w.put(secretResource, `{apiVersion: v1, kind: Secret, metadata: {name: vc-a, namespace: vc}, data: {endpoint: eA==}}`)
	w.until("a source that is not selected any more", func() bool { return w.cluster("vc-a") == nil })
}

func TestThePolicySaysWhatIsWrong(t *testing.T) {
	change := func(old, by string) string {
		require.Contains(t, fleetPolicy, old)
		return strings.Replace(fleetPolicy, old, by, 1)
	}
	for want, text := range map[string]string{
		"FailedParseLifecycleName":         change("fleet-{{ .source", "fleet-{{ .source }"),
		"FailedParseSourceSelector":        change("resource: clusters,", "resource: clusters, selectorTemplate: '{{ nothing }}',"),
		"InvalidPolicy":                    change("{{ .references.kubeconfig.data.value }}", `{{ env "HOME" }}`),
		"FailedNegotiateSourceResource":    change("resource: clusters", "resource: nothing"),
		"FailedNegotiateReferenceResource": change("resource: secrets", "resource: bindings"),
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t)
			w.put(policyResource, text)
			w.policySays("fleet", "Validated=False "+want)
		})
	}
	for want, text := range map[string]string{
		"prod/a: nameTemplate makes \"Not a name\"":      change(`"fleet-{{ .source.metadata.namespace }}-{{ .source.metadata.name }}"`, "Not a name"),
		"prod/b: the name one is that of prod/a already": change(`"fleet-{{ .source.metadata.namespace }}-{{ .source.metadata.name }}"`, "one"),
	} {
		w := newWorld(t)
		w.put(policyResource, text)
		w.put(fleetResource, fleetCluster("a", "True"))
		w.put(fleetResource, fleetCluster("b", "True"))
		policy := w.policySays("fleet", "Reconciling=False FailedReconcile, Validated=True Success")
		assert.Contains(t, meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.Reconciling).Message, want)
	}
	for want, template := range map[string]string{
		"it does not make YAML":              "{",
		"the template makes no PediaCluster": "[]",
		"that is not base64":                 `spec: {tokenData: "%%%"}`,
		"the template makes nothing":         "",
		"it makes more than 1 MiB":           `{{ define "all" }}{{ if lt (len .) 200 }}{{ template "all" (print . "x") }}{{ end }}0123456789{{ printf "%9999s" . }}{{ end }}{{ template "all" "" }}`,
	} {
		w := newWorld(t)
		w.putSecrets(oldConfig)
		policy := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(fleetPolicy), &policy.Object))
		require.NoError(t, unstructured.SetNestedField(policy.Object, template, "spec", "template"))
		data, err := json.Marshal(policy)
		require.NoError(t, err)
		w.put(policyResource, string(data))
		w.put(fleetResource, fleetCluster("a", "True"))
		lifecycle := w.lifecycleSays("fleet-prod-a", "Created=False FailedResolveAndDecodePediaCluster")
		assert.Contains(t, lifecycle.Status.Conditions[0].Message, want)
	}
}

func TestTwoPoliciesDoNotFightOverAName(t *testing.T) {
	w := newWorld(t)
	w.putSecrets(oldConfig)
	w.put(policyResource, fleetPolicy)
	w.put(fleetResource, fleetCluster("a", "True"))
	w.policySays("fleet", allGood)
	w.put(policyResource, strings.Replace(fleetPolicy, "{name: fleet}", "{name: second}", 1))
	policy := w.policySays("second", "Reconciling=False FailedReconcile, Validated=True Success")
	assert.Contains(t, meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.Reconciling).Message, "fleet-prod-a: ClusterImportPolicy fleet has made it")
	w.policySays("fleet", allGood)
}

// forged returns a lifecycle that reads a Secret, and names its controller.
func forged(name, owner string) string {
	return `{apiVersion: policy.clusterpedia.io/v1alpha1, kind: PediaClusterLifecycle, metadata: {name: ` + name + `, ` + owner + `},
		spec: {source: {group: "", version: v1, resource: secrets, namespace: prod, name: config}, creationCondition: "true",
		references: [{key: stolen, group: "", version: v1, resource: secrets, namespaceTemplate: prod, nameTemplate: config}],
		template: 'spec: {syncResources: [], apiserver: "{{ .source.data.value }}{{ .references.stolen.data.value }}"}'}}`
}

// controlledBy returns metadata that names a policy as the controller.
func controlledBy(name, uid string) string {
	return `ownerReferences: [{apiVersion: policy.clusterpedia.io/v1alpha1, kind: ClusterImportPolicy, name: ` + name + `, uid: ` + uid + `, controller: true}]`
}

// TestALifecycleThatNoPolicyMakesReadsNothing has lifecycles that another user has written.
func TestALifecycleThatNoPolicyMakesReadsNothing(t *testing.T) {
	for name, owner := range map[string]string{
		"of nobody":                  "labels: {}",
		"of a policy that is gone":   controlledBy("gone", "uid-gone"),
		"of a policy":                controlledBy("fleet", "uid-fleet"),
		"of another UID of a policy": controlledBy("fleet", "uid-other"),
		"of another kind":            strings.Replace(controlledBy("fleet", "uid-fleet"), "kind: ClusterImportPolicy", "kind: Policy", 1),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(policyResource, fleetPolicy)
			w.putSecrets(oldConfig)
			w.put(lifecycleResource, forged("forged", owner))
			refused := false
			w.until("it is refused", func() bool {
				lifecycle := w.lifecycle("forged")
				if lifecycle == nil { // search removes one whose owner does not exist
					return true
				}
				assert.Empty(t, lifecycle.Status.References)
				refused = says(lifecycle.Status.Conditions) == "Created=False OrphanLifecycle"
				return refused && name != "of a policy that is gone" && name != "of another UID of a policy"
			})
			w.until("a pass later", func() bool { return true })
			for _, action := range w.client.Actions() {
				assert.False(t, action.GetVerb() == "create" && action.GetResource() == clusterResource, "search has made a PediaCluster of it")
			}
		})
	}
}

// TestAPolicyMakesItsLifecyclesItself has a lifecycle of the name and the owner of a real one.
func TestAPolicyMakesItsLifecyclesItself(t *testing.T) {
	w := newWorld(t)
	w.put(policyResource, fleetPolicy)
	w.putSecrets(oldConfig)
	w.put(lifecycleResource, forged("fleet-prod-a", controlledBy("fleet", "uid-fleet")))
	w.put(fleetResource, fleetCluster("a", "True"))
	w.lifecycleSays("fleet-prod-a", "Created=True PediaClusterCreated, Updating=True PediaClusterUpdated")
	assert.Equal(t, "fleet.example.com", w.lifecycle("fleet-prod-a").Spec.Source.Group)
	cluster := w.cluster("fleet-prod-a")
	assert.Equal(t, []string{">>>>>>", ""}, []string{string(cluster.Spec.Kubeconfig), cluster.Spec.APIServer})
}

func TestATemplateThatTakesTooMuchIsReported(t *testing.T) {
	w := newWorld(t)
	w.putSecrets(oldConfig)
	w.put(policyResource, strings.Replace(fleetPolicy, "{{ .references.kubeconfig.data.value }}", `{{ indent 1200000000 "x" }}`, 1))
	w.put(fleetResource, fleetCluster("a", "True"))
	lifecycle := w.lifecycleSays("fleet-prod-a", "Created=False FailedResolveAndDecodePediaCluster")
	assert.Contains(t, lifecycle.Status.Conditions[0].Message, "it takes more than 64 MiB of memory")

	w.put(policyResource, fleetPolicy) // which is right at once
	w.until("the cluster is there", func() bool { return w.cluster("fleet-prod-a") != nil })
}
