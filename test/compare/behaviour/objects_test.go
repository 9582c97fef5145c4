// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestObjectsAreCreatedReadUpdatedAndDeleted(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		ctx, client := t.Context(), r.in(t, namespace)
		created, err := client.Create(ctx, r.object("a", "red"), metav1.CreateOptions{})
		require.NoError(t, err)
		if created.GetUID() == "" || created.GetResourceVersion() == "" {
			t.Errorf("the server left out metadata: %v", created.Object["metadata"])
		}
		if _, err := client.Create(ctx, r.object("a", "red"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("creating it again: %v", err)
		}

		changed := created.DeepCopy()
		require.NoError(t, unstructured.SetNestedField(changed.Object, "green", "data", "color"))
		if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("updating an old resourceVersion: %v", err)
		}
		read, err := client.Get(ctx, "a", metav1.GetOptions{})
		require.NoError(t, err)
		if got := color(read); got != "green" {
			t.Errorf("read %q after an update to green", got)
		}

		if err := client.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}); !apierrors.IsConflict(err) {
			t.Errorf("deleting with the UID of another object: %v", err)
		}
		require.NoError(t, client.Delete(ctx, "a", metav1.DeleteOptions{}))
		if _, err := client.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("reading a deleted object: %v", err)
		}
	})
}

func TestCollectionsAreDeletedBySelector(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		ctx, client := t.Context(), r.in(t, namespace)
		for _, name := range []string{"a", "b", "c"} {
			object := r.object(name, "red")
			object.SetLabels(map[string]string{"doomed": fmt.Sprint(name != "c")})
			if _, err := client.Create(ctx, object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		require.NoError(t, client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "doomed=true"}))
		list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "doomed"})
		require.NoError(t, err)
		if items := list.Items; len(items) != 1 || items[0].GetName() != "c" {
			t.Errorf("left over: %v", items)
		}
	})
}

func TestObjectsAreNotCreatedInAMissingNamespace(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, _ string) {
		_, err := r.in(t, "missing").Create(t.Context(), r.object("a", "red"), metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want not found", err)
		}
	})
}

func TestObjectsArePatchedWithJSONPatch(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		ctx, client := t.Context(), r.in(t, namespace)
		create(t, client, r.object("a", "red"))
		patch := []byte(`[{"op":"test","path":"/data/color","value":"red"},{"op":"replace","path":"/data/color","value":"blue"},{"op":"add","path":"/data/shade","value":"dark"}]`)
		patched, err := client.Patch(ctx, "a", types.JSONPatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Equal(t, "blue", color(patched))
		if _, err := client.Patch(ctx, "a", types.JSONPatchType, patch, metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a patch whose test fails: %v", err)
		}
	})
}

func TestObjectsArePatchedWithMergePatch(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		ctx, client := t.Context(), r.in(t, namespace)
		create(t, client, r.object("a", "red"))
		patched, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"color":null,"shade":"dark"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		data, _, _ := unstructured.NestedStringMap(patched.Object, "data")
		if len(data) != 1 || data["shade"] != "dark" {
			t.Errorf("got %v", data)
		}
	})
}

func TestStrategicMergePatchMergesListsOfBuiltInTypesByKey(t *testing.T) {
	t.Parallel()
	r := resource{configMaps.GroupVersion().WithResource("services"), "Service"}
	ctx, client := t.Context(), r.in(t, createNamespace(t))
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": int64(80)}}},
	}}
	create(t, client, service)
	patch := []byte(`{"spec":{"ports":[{"name":"https","port":443}]}}`)
	patched, err := client.Patch(ctx, "a", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	ports, _, _ := unstructured.NestedSlice(patched.Object, "spec", "ports")
	assert.Len(t, ports, 2)
}

func TestStrategicMergePatchIsForBuiltInTypesOnly(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		ctx, client := t.Context(), r.in(t, namespace)
		create(t, client, r.object("a", "red"))
		_, err := client.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"data":{"color":"blue"}}`), metav1.PatchOptions{})
		if r.Group != "" {
			err = unless(apierrors.IsUnsupportedMediaType, err)
		}
		assert.NoError(t, err)
	})
}

func TestServerSideApplyFindsConflictsAndForcesThem(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		ctx, client := t.Context(), r.in(t, namespace)
		_, err := client.Apply(ctx, "a", r.object("a", "red"), metav1.ApplyOptions{FieldManager: "alice"})
		require.NoError(t, err)
		_, err = client.Apply(ctx, "a", r.object("a", "blue"), metav1.ApplyOptions{FieldManager: "bob"})
		if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
			t.Errorf("applying over the field of another manager: %v", err)
		}
		applied, err := client.Apply(ctx, "a", r.object("a", "blue"), metav1.ApplyOptions{FieldManager: "bob", Force: true})
		require.NoError(t, err)
		assert.Equal(t, "blue", color(applied), "forced")
		managers := applied.GetManagedFields()
		if len(managers) != 1 || managers[0].Manager != "bob" || managers[0].Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("managers after taking the only field over: %v", managers)
		}
		empty := r.object("a", "")
		delete(empty.Object, "data")
		applied, err = client.Apply(ctx, "a", empty, metav1.ApplyOptions{FieldManager: "bob"})
		require.NoError(t, err)
		if _, found, _ := unstructured.NestedString(applied.Object, "data", "color"); found {
			t.Error("a field that its only manager leaves out stays")
		}
	})
}
