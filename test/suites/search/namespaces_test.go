// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

// shown is a namespace in which the user narrow may read ConfigMaps.
const shown = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: first, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: narrow, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: narrow, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: narrow}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: narrow}]
`

func TestSearchMayReadSomeNamespacesOnly(t *testing.T) {
	t.Parallel()
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(shown, "shown-a")))
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(shown, "shown-b")))
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: Namespace, metadata: {name: unshown}}"))
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: unshown}}"))
	user, err := fleet.UserConfig("narrow")
	require.NoError(t, err)
	wanted := map[string]any{"group": "", "resources": []any{"configmaps", "nodes"}}
	addCluster(t, "narrow", kubeconfig(t, user), wanted)
	awaitCondition(t, "narrow", "SynchroRunning", metav1.ConditionTrue, "not copied now: configmaps, nodes")

	const inNarrow = resources + "/clusters/narrow/api/v1/"
	has := func(what string, want ...string) {
		t.Helper()
		framework.Eventually(t, what, func(ctx context.Context) error {
			names, err := get(ctx, fleet.Admin(), inNarrow+"configmaps")
			if slices.Sort(names); err == nil && !slices.Equal(want, names) {
				err = fmt.Errorf("it has %q", names)
			}
			return err
		})
	}
	patchCluster(t, "narrow", `{"spec": {"namespaces": ["shown-b", "shown-a"]}}`)
	has("search copies two namespaces", "shown-a/first", "shown-b/first")
	awaitCondition(t, "narrow", "SynchroRunning", metav1.ConditionTrue, "because they are in no namespace and spec.namespaces is set: nodes")
	awaitCondition(t, "narrow", "Fresh", metav1.ConditionTrue, "")
	_, err = get(t.Context(), fleet.Admin(), inNarrow+"nodes")
	require.Error(t, err)

	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: second, namespace: shown-b}}"))
	require.NoError(t, client.CoreV1().ConfigMaps("shown-a").Delete(t.Context(), "first", metav1.DeleteOptions{}))
	has("search follows both", "shown-b/first", "shown-b/second")

	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: third, namespace: shown-a}}"))
	has("search follows one more", "shown-a/third", "shown-b/first", "shown-b/second")
	patchCluster(t, "narrow", `{"spec": {"namespaces": ["shown-b", "unshown"]}}`)
	awaitCondition(t, "narrow", "SynchroRunning", metav1.ConditionTrue, "not copied now: configmaps")
	has("search forgets a namespace, although another one is refused", "shown-b/first", "shown-b/second")
	patchCluster(t, "narrow", `{"spec": {"namespaces": ["shown-a"]}}`)
	has("search has the first namespace again", "shown-a/third")

	patchCluster(t, "narrow", `{"spec": {"memberRBAC": {}}}`)
	awaitCondition(t, "narrow", "Validated", metav1.ConditionFalse, "memberRBAC needs the ClusterRoles of the cluster")
	_, err = get(t.Context(), fleet.Admin(), inNarrow+"configmaps?limit=1")
	assert.NoError(t, err)
}
