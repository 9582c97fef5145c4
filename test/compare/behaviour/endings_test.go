// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestNothingIsCreatedInANamespaceOnceItsDeletionIsAnswered holds each namespace in Terminating by an object with a finalizer, as most namespaces are
// when they end, and creates custom and built-in objects right after the answer.
func TestNothingIsCreatedInANamespaceOnceItsDeletionIsAnswered(t *testing.T) {
	t.Parallel()
	r := resource{installCRD(t, cluster, newWidgets()), "Widget"}
	client, err := kubernetes.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	namespaces := client.CoreV1().Namespaces()
	for i := range 80 {
		namespace := fmt.Sprintf("ending-%d", i)
		_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		require.NoError(t, err)
		widgets, configMaps := r.in(t, namespace), client.CoreV1().ConfigMaps(namespace)
		create(t, widgets, r.object("before", "red"))
		require.NoError(t, namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}))
		_, err = widgets.Create(t.Context(), r.object("after", "red"), metav1.CreateOptions{})
		assert.True(t, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), "try %d: a custom object is created: %v", i, err)
		_, err = configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{})
		assert.True(t, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), "try %d: a ConfigMap is created: %v", i, err)
	}
}
