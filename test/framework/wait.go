// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	pollInterval = 50 * time.Millisecond
	// pollTimeout only ends a test that would never end. It says nothing about how fast anything is.
	pollTimeout = 2 * time.Minute
)

// Poll calls condition until it returns nil. After a long time, or when ctx ends, it returns the last error.
func Poll(ctx context.Context, what string, condition func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(ctx context.Context) (bool, error) {
		err := condition(ctx)
		if err == nil || ctx.Err() == nil || last == nil { // an error of the end itself has less information than the one before
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w: %w", what, err, last)
	}
	return nil
}

// Eventually calls condition until it returns nil. If it never does, the test fails with the last error.
func Eventually(t testing.TB, what string, condition func(context.Context) error) {
	t.Helper()
	require.NoError(t, Poll(t.Context(), what, condition))
}

// UniqueName returns a name that no other test uses.
func UniqueName(prefix string) string { return prefix + "-" + utilrand.String(6) }

// CreateNamespace creates a namespace for a test. It is not removed: it goes with the cluster.
func CreateNamespace(t testing.TB, cluster *Cluster) string {
	t.Helper()
	name, err := newNamespace(t.Context(), cluster)
	require.NoError(t, err)
	return name
}

func newNamespace(ctx context.Context, cluster *Cluster) (string, error) {
	client, err := kubernetes.NewForConfig(cluster.Admin())
	if err != nil {
		return "", err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: UniqueName("test")}}
	_, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	return namespace.Name, err
}
