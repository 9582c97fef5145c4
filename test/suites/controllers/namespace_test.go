// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/test/framework"
)

// finalizer keeps an object until the test removes it.
const finalizer = "test.example.com/hold"

func TestANamespaceWithCustomResourcesIsDeletedCompletely(t *testing.T) {
	t.Parallel()
	widgets := newWidgets(t)
	namespace := framework.CreateNamespace(t, tripod.Cluster)
	widgets.create(t, namespace, "plain", nil)
	widgets.create(t, namespace, "held", []string{finalizer})
	configMaps.create(t, namespace, "plain", nil)
	configMaps.create(t, namespace, "held", []string{finalizer})

	deleteNamespace(t, namespace)
	framework.Eventually(t, "only finalizers hold the namespace", func(ctx context.Context) error {
		return terminating(ctx, namespace, corev1.NamespaceFinalizersRemaining)
	})
	for _, r := range []resource{widgets, configMaps} {
		framework.Eventually(t, "the plain "+r.kind+" is gone", func(ctx context.Context) error {
			return r.gone(ctx, namespace, "plain")
		})
		held, err := r.in(namespace).Get(t.Context(), "held", metav1.GetOptions{})
		require.NoError(t, err)
		if held.GetDeletionTimestamp() == nil {
			t.Errorf("nobody deleted the %s with a finalizer", r.kind)
		}
		r.release(t, namespace, "held")
	}

	framework.Eventually(t, "the namespace is gone", func(ctx context.Context) error { return namespaceGone(ctx, namespace) })
	for _, r := range []resource{widgets, configMaps} {
		assert.Empty(t, names(t, r, namespace), "the namespace is gone and has left these %ss", r.kind)
	}
}

func TestANamespaceWaitsWhileExtensionsIsAway(t *testing.T) {
	widgets := newWidgets(t)
	namespace := framework.CreateNamespace(t, tripod.Cluster)
	widgets.create(t, namespace, "a", nil)
	configMaps.create(t, namespace, "a", nil)

	resume := suspend(t, "extensions")
	deleteNamespace(t, namespace)
	framework.Eventually(t, "the namespace controller says what it waits for", func(ctx context.Context) error {
		return terminating(ctx, namespace, corev1.NamespaceDeletionContentFailure)
	})
	framework.Eventually(t, "objects of core are deleted meanwhile", func(ctx context.Context) error {
		return configMaps.gone(ctx, namespace, "a")
	})
	assert.NoError(t, terminating(t.Context(), namespace, corev1.NamespaceDeletionContentFailure))

	resume()
	framework.Eventually(t, "the namespace is gone", func(ctx context.Context) error { return namespaceGone(ctx, namespace) })
	assert.Empty(t, names(t, widgets, namespace), "the namespace is gone and has left these widgets")
}

// suspend keeps a component from answering anything until resume is called or the test ends. Unlike a component that
// is killed it is not started again meanwhile.
func suspend(t testing.TB, component string) (resume func()) {
	t.Helper()
	status, err := tripod.Component(t.Context(), component)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(status.PID, syscall.SIGSTOP))
	resume = sync.OnceFunc(func() {
		assert.NoError(t, syscall.Kill(status.PID, syscall.SIGCONT), "cannot resume %s", component)
	})
	t.Cleanup(resume)
	return resume
}

func deleteNamespace(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// terminating returns nil when the namespace is being deleted and has the condition.
func terminating(ctx context.Context, name string, want corev1.NamespaceConditionType) error {
	namespace, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range namespace.Status.Conditions {
		if condition.Type == want && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the namespace is %+v", namespace.Status)
}

func namespaceGone(ctx context.Context, name string) error {
	return gone(ctx, "namespace "+name, func(ctx context.Context) (metav1.Object, error) {
		return client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	})
}

// names returns what is left of a resource in a namespace.
func names(t testing.TB, r resource, namespace string) []string {
	t.Helper()
	list, err := r.in(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return names
}
