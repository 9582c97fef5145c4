// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// policyObjects are objects of a resource of policies.
func policyObjects(resource string) dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(fleet.Admin()).Resource(v1alpha1.GroupVersion.WithResource(resource))
}

// conditionsOf returns "TYPE=STATUS REASON: MESSAGE" of the conditions of an object.
func conditionsOf(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var all []string
	for _, c := range conditions {
		has := c.(map[string]any)
		all = append(all, fmt.Sprintf("%v=%v %v: %v", has["type"], has["status"], has["reason"], has["message"]))
	}
	return strings.Join(all, "\n")
}

// awaitText returns when a condition of an object has a text.
func awaitText(t *testing.T, resource, name, text string) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("%s %s says %s", resource, name, text), func(ctx context.Context) error {
		object, err := policyObjects(resource).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !strings.Contains(conditionsOf(object), text) {
			err = fmt.Errorf("its conditions are %s", conditionsOf(object))
		}
		return err
	})
}

// createPolicy creates a policy of the ConfigMaps of one name in the namespace platform, which goes with the test.
func createPolicy(t *testing.T, name, template string) *unstructured.Unstructured {
	t.Helper()
	framework.Eventually(t, "search has defined its kinds", func(ctx context.Context) error {
		return fleet.Create(ctx, fmt.Sprintf(`{apiVersion: policy.clusterpedia.io/v1alpha1, kind: ClusterImportPolicy, metadata: {name: %[1]s}, spec: {
			source: {group: "", resource: configmaps, selectorTemplate: '{{ eq .source.metadata.name "%[1]s" }}'},
			nameTemplate: %[1]s, creationCondition: "true", template: %[2]q}}`, name, template))
	})
	t.Cleanup(func() {
		assert.NoError(t, policyObjects("clusterimportpolicies").Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	policy, err := policyObjects("clusterimportpolicies").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return policy
}

func TestALifecycleThatNoPolicyMakesReadsNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: Secret, metadata: {name: loot, namespace: platform}, data: {value: bG9vdA==}}"))
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: bait, namespace: platform}}"))
	policy := createPolicy(t, "idle", "spec: {}")
	before, err := pediaClusters().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	created, err := pediaClusters().Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	require.NoError(t, err)
	defer created.Stop()

	owner := func(uid string) string {
		return "ownerReferences: [{apiVersion: policy.clusterpedia.io/v1alpha1, kind: ClusterImportPolicy, name: idle, uid: " + uid + ", controller: true}]"
	}
	forged := map[string]string{"forged": owner(string(policy.GetUID())), "invented": owner("11111111-2222-3333-4444-555555555555"), "alone": "labels: {a: b}"}
	for name, metadata := range forged {
		require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(`{apiVersion: policy.clusterpedia.io/v1alpha1, kind: PediaClusterLifecycle, metadata: {name: %s, %s}, spec: {
			source: {group: "", version: v1, resource: configmaps, namespace: platform, name: bait}, creationCondition: "true",
			references: [{key: stolen, group: "", version: v1, resource: secrets, namespaceTemplate: platform, nameTemplate: loot}],
			template: 'spec: {syncResources: [], apiserver: "https://{{ .references.stolen.data.value }}"}'}}`, name, metadata)))
	}
	awaitText(t, "pediaclusterlifecycles", "alone", "Created=False OrphanLifecycle: no ClusterImportPolicy controls it")
	for _, name := range []string{"forged", "invented"} { // the policy makes nothing of that name, or the owner does not exist
		framework.Eventually(t, "search removes "+name, func(ctx context.Context) error {
			_, err := policyObjects("pediaclusterlifecycles").Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil:
				return errors.New("it is there")
			}
			return err
		})
	}
	addCluster(t, "last-of-all", []byte("{}"), map[string]any{"group": "", "resources": []any{"pods"}})
	for event := range created.ResultChan() {
		name := event.Object.(*unstructured.Unstructured).GetName()
		assert.NotContains(t, forged, name, "search has made a PediaCluster of a lifecycle that no policy makes")
		if name == "last-of-all" {
			break
		}
	}
	require.NoError(t, policyObjects("pediaclusterlifecycles").Delete(t.Context(), "alone", metav1.DeleteOptions{}))
}

// mostMemory is the most that a process ever had, in MiB.
func mostMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	kib, err := strconv.Atoi(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)[1]))
	require.NoError(t, err)
	return kib >> 10
}

func TestTemplatesHaveLimits(t *testing.T) {
	t.Parallel()
	doubled := "{{ $x := print `0123456789` }}" + strings.Repeat("{{ $x = print $x $x }}", 28)
	bomb := "a: &a " + strings.Repeat("x", 60_000) + "\nb: [" + strings.Repeat("*a,", 40_000) + "]"
	tests := map[string]struct{ template, want string }{
		"wide":    {`spec: {{ indent 1200000000 "x" }}`, "it takes more than 64 MiB of memory"},
		"doubled": {doubled, "it takes more than"},
		"bomb":    {bomb, "it takes more than"},
		"endless": {"{{ range 99999999999 }}{{ end }}", "it takes more than 300ms of a processor"},
	}
	for name, test := range tests {
		require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: platform}}", name)))
		createPolicy(t, name, test.template)
	}
	for name, test := range tests {
		awaitText(t, "pediaclusterlifecycles", name, "FailedResolveAndDecodePediaCluster: "+test.want)
	}
	assert.Less(t, mostMemory(t, fleet.Replica("search-0").Process().PID()), 1024, "MiB")
}
