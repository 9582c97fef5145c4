// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/apiservice/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, service())) }

var (
	flunders = schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "flunders"}
	fischers = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "fischers"}
)

func object(resource schema.GroupVersionResource, kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: fields}
	o.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	o.SetName(name)
	return o
}

func clientOf(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func TestFlundersAreCheckedAndBanned(t *testing.T) {
	t.Parallel()
	api := apitest.Start(t, service())
	admin := clientOf(t, api.Admin())
	ctx, mine := t.Context(), admin.Resource(flunders).Namespace("default")

	good := object(flunders, "Flunder", "good", map[string]any{
		"spec": map[string]any{"referenceType": "Flunder", "flunderReference": "other"},
	})
	_, err := mine.Create(ctx, good, metav1.CreateOptions{})
	require.NoError(t, err)
	older := flunders
	older.Version = "v1alpha1"
	converted, err := admin.Resource(older).Namespace("default").Get(ctx, "good", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"referenceType": "Flunder", "reference": "other"}, converted.Object["spec"])

	wrong := object(flunders, "Flunder", "wrong", map[string]any{"spec": map[string]any{"referenceType": "Sea"}})
	_, err = mine.Create(ctx, wrong, metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	assert.ErrorContains(t, err, `spec.referenceType: Invalid value: "Sea": must be Flunder or Fischer`)

	fischer := object(fischers, "Fischer", "f", map[string]any{"disallowedFlunders": []any{"banned"}})
	_, err = admin.Resource(fischers).Create(ctx, fischer, metav1.CreateOptions{})
	require.NoError(t, err)
	// The plugin watches fischers.
	require.Eventually(t, func() bool {
		banned := object(flunders, "Flunder", "banned", map[string]any{})
		_, err := mine.Create(ctx, banned, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	}, time.Minute, 20*time.Millisecond)
}

func TestUsersMayWhatTheClusterSays(t *testing.T) {
	t.Parallel()
	api := apitest.Start(t, service())
	jane := clientOf(t, api.User("jane", "readers")).Resource(flunders)
	_, err := jane.List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	assert.ErrorContains(t, err, `User "jane" cannot list resource "flunders"`)

	api.Allow("jane", rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"flunders"}, Verbs: []string{"list"}})
	_, err = jane.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.True(t, apierrors.IsForbidden(jane.Namespace("default").Delete(t.Context(), "any", metav1.DeleteOptions{})))
}

// One replica of two is enough for clients.
func TestReplicasDieFreezeAndRoll(t *testing.T) {
	t.Parallel()
	api := apitest.Options{Replicas: 2}.Start(t, service())
	mine := clientOf(t, api.Admin()).Resource(flunders).Namespace("default")
	require.Equal(t, []string{"wardle-0", "wardle-1"}, api.Replicas())
	written := 0
	write := func(while string) {
		t.Helper()
		for range 10 {
			o := object(flunders, "Flunder", "", map[string]any{})
			o.SetGenerateName("f-")
			_, err := mine.Create(t.Context(), o, metav1.CreateOptions{})
			require.NoError(t, err, while)
			written++
		}
	}
	write("before")
	api.Kill("wardle-0")
	write("while a replica is dead")
	api.WaitReady()
	// A write that the frozen replica has taken may have been carried out, so nothing sends it again. A read is sent to the other one.
	thaw := api.Freeze("wardle-1")
	for range 10 {
		_, err := mine.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err, "while a replica is frozen")
	}
	thaw()
	api.WaitReady()
	api.Roll()
	write("after a roll")
	list, err := mine.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, list.Items, written)
}
