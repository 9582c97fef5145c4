// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/apis/saved/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/savedsearches"
	"github.com/tripod-k8s/tripod/test/framework"
)

func savedSearches() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(fleet.Admin()).Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.Resource))
}

// save creates a search for the ConfigMaps of a namespace.
func save(t *testing.T, name, namespace, more string) {
	t.Helper()
	framework.Eventually(t, "search has defined its kinds", func(ctx context.Context) error {
		return createSaved(ctx, fmt.Sprintf(`{metadata: {name: %s}, spec: {description: d, parameters: {resources: /configmaps, namespaces: %s}, %s}}`,
			name, namespace, more))
	})
}

// createSaved creates a search of YAML.
func createSaved(ctx context.Context, text string) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		return err
	}
	object.SetAPIVersion(v1alpha1.GroupVersion.String())
	object.SetKind("SavedSearch")
	_, err := savedSearches().Create(ctx, object, metav1.CreateOptions{})
	return err
}

// patchSaved changes a search.
func patchSaved(t *testing.T, name, patch string) {
	t.Helper()
	_, err := savedSearches().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

// awaitSaved returns a search when its present generation was counted, with a reason and some matches. Each change of its description has
// it counted anew, without waiting for its interval.
func awaitSaved(t *testing.T, name, reason string, matches int64) (found *v1alpha1.SavedSearch) {
	t.Helper()
	round := 0
	framework.Eventually(t, fmt.Sprintf("%s: %s, %d matches", name, reason, matches), func(ctx context.Context) error {
		object, err := savedSearches().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found = &v1alpha1.SavedSearch{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found); err != nil {
			return err
		}
		if found.Status.ObservedGeneration != found.Generation {
			return fmt.Errorf("generation %d was counted, not %d", found.Status.ObservedGeneration, found.Generation)
		}
		evaluated := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.Evaluated)
		if evaluated == nil || evaluated.Reason != reason || found.Status.Matches == nil || *found.Status.Matches != matches {
			round++
			patchSaved(t, name, fmt.Sprintf(`{"spec": {"description": "%d"}}`, round))
			return fmt.Errorf("has the status %+v", found.Status)
		}
		return nil
	})
	return found
}

func TestASavedSearchIsCountedByTheRightsOfItsUser(t *testing.T) {
	t.Parallel()
	namespace, name := framework.CreateNamespace(t, fleet.Cluster), framework.UniqueName("saved")
	for _, object := range []string{"one", "two"} {
		require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}}", object, namespace)))
	}
	save(t, name, namespace, "threshold: {moreThan: 1}")
	search := awaitSaved(t, name, savedsearches.Forbidden, 0)
	assert.False(t, meta.IsStatusConditionTrue(search.Status.Conditions, v1alpha1.Exceeded))
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: counts, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: counts, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: counts}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]q}]
`, namespace, search.Status.User)))
	search = awaitSaved(t, name, savedsearches.Counted, 2)
	assert.True(t, meta.IsStatusConditionTrue(search.Status.Conditions, v1alpha1.Exceeded))
	for _, replica := range []string{"search-0", "search-1"} {
		framework.Eventually(t, replica+" exports the matches", func(ctx context.Context) error {
			matches, err := fleet.Metric(ctx, replica, "tripod_search_saved_matches", "name="+name)
			if err != nil {
				return err
			}
			exceeded, err := fleet.Metric(ctx, replica, "tripod_search_saved_exceeded", "name="+name)
			if err == nil && (matches != 2 || exceeded != 1) {
				err = fmt.Errorf("it has %v, %v", matches, exceeded)
			}
			return err
		})
	}

	// An author gets no other number by these rights, nor by those of another user.
	patchSaved(t, name, `{"spec": {"parameters": {"names": "one"}}}`)
	patch := fmt.Appendf(nil, `{"status": {"user": %q}}`, search.Status.User)
	_, err := savedSearches().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	other := awaitSaved(t, name, savedsearches.Forbidden, 0)
	assert.NotEqual(t, search.Status.User, other.Status.User)
	patchSaved(t, name, `{"spec": {"parameters": {"names": null}}}`)
	awaitSaved(t, name, savedsearches.Counted, 2)

	require.NoError(t, savedSearches().Delete(t.Context(), name, metav1.DeleteOptions{}))
	framework.Eventually(t, "the metric goes", func(ctx context.Context) error {
		matches, err := fleet.Metric(ctx, "search-1", "tripod_search_saved_matches", "name="+name) // 0 if there is none
		if err == nil && matches != 0 {
			err = fmt.Errorf("it is %v", matches)
		}
		return err
	})
}

// TestOneReplicaCountsASavedSearch has two replicas serve, and counts the replicas that count it, by its status.
func TestOneReplicaCountsASavedSearch(t *testing.T) {
	t.Parallel()
	name := framework.UniqueName("once")
	save(t, name, "none", "intervalSeconds: 86400")
	watch, err := savedSearches().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	require.NoError(t, err)
	defer watch.Stop()
	const changes = 8
	counted := map[int64]map[time.Time]bool{}
	for generation := int64(1); generation <= changes; {
		event := <-watch.ResultChan()
		require.NotNil(t, event.Object, "the watch has ended")
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(event.Object)
		require.NoError(t, err, apierrors.FromObject(event.Object))
		search := &v1alpha1.SavedSearch{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, search))
		if by := search.Status.Counting; by != nil {
			if counted[by.Generation] == nil {
				counted[by.Generation] = map[time.Time]bool{}
			}
			counted[by.Generation][by.Since.Time] = true
		}
		if search.Status.ObservedGeneration == generation {
			if generation++; generation <= changes {
				patchSaved(t, name, fmt.Sprintf(`{"spec": {"description": "%d"}}`, generation))
			}
		}
	}
	require.Len(t, counted, changes)
	for generation, times := range counted {
		assert.Len(t, times, 1, "generation %d", generation)
	}
}

func TestAWrongSavedSearchSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	name := framework.UniqueName("wrong")
	save(t, name, "none", "intervalSeconds: 30")
	patchSaved(t, name, `{"spec": {"parameters": {"at": "5m"}}}`)
	framework.Eventually(t, "search refuses it", func(ctx context.Context) error {
		object, err := savedSearches().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found := &v1alpha1.SavedSearch{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found); err != nil {
			return err
		}
		evaluated := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.Evaluated)
		if evaluated == nil || evaluated.Reason != savedsearches.Invalid || found.Status.Matches != nil {
			return fmt.Errorf("has the status %+v", found.Status)
		}
		return nil
	})
	require.True(t, apierrors.IsInvalid(createSaved(t.Context(), fmt.Sprintf("{metadata: {name: %s-2}, spec: {parameters: {}}}", name))))
}
