// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestUpWithControllers follows docs/laptop.md: one command, and a Deployment has pods that run, also after a crash and after another start.
func TestUpWithControllers(t *testing.T) {
	env := framework.ForTest(t)
	options := framework.TripodOptions{Args: []string{"--kwok-nodes=2"}}
	up, err := env.StartTripod(t.Context(), options)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(up.Admin())
	require.NoError(t, err)
	deployments := client.AppsV1().Deployments(metav1.NamespaceDefault)
	labels := map[string]string{"app": "web"}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	web.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	web.Spec.Template.Labels = labels
	web.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web.example.com/web"}}
	_, err = deployments.Create(t.Context(), web, metav1.CreateOptions{})
	require.NoError(t, err)
	scale := func(client kubernetes.Interface, replicas int32) {
		t.Helper()
		deployments := client.AppsV1().Deployments(metav1.NamespaceDefault)
		_, err := deployments.Patch(t.Context(), "web", "application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
		require.NoError(t, err)
		framework.Eventually(t, fmt.Sprint(replicas, " pods run"), func(ctx context.Context) error {
			now, err := client.AppsV1().Deployments(metav1.NamespaceDefault).Get(ctx, "web", metav1.GetOptions{})
			if err == nil && (now.Status.ObservedGeneration < now.Generation || now.Status.AvailableReplicas != replicas) {
				err = fmt.Errorf("%d are available", now.Status.AvailableReplicas)
			}
			return err
		})
	}
	scale(client, 3)
	kwokServesNoDebugging(t, up)

	for _, component := range []string{"scheduler", "controller-manager", "kwok"} {
		require.NoError(t, up.Kill(t.Context(), component))
		require.NoError(t, up.WaitReady(t.Context()))
	}
	scale(client, 4)

	require.NoError(t, up.Stop())
	options.DataDir = up.DataDir
	up, err = env.StartTripod(t.Context(), options)
	require.NoError(t, err)
	client, err = kubernetes.NewForConfig(up.Admin())
	require.NoError(t, err)
	scale(client, 5)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 2)
}

// kwokServesNoDebugging asks kwok, as all users of this machine can, for what needs no rights there.
func kwokServesNoDebugging(t *testing.T, up *framework.Tripod) {
	t.Helper()
	kwok, err := up.Component(t.Context(), "kwok")
	require.NoError(t, err)
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/debug/pprof/": http.StatusMethodNotAllowed, "/containerLogs/default/web/web": http.StatusMethodNotAllowed,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, kwok.Address+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, want, answer.StatusCode, path)
	}
}
