// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestADeploymentsPodsBecomeRunning(t *testing.T) {
	t.Parallel()
	namespace := framework.CreateNamespace(t, tripod.Cluster)
	web := client.AppsV1().Deployments(namespace)
	labels := map[string]string{"app": "web"}
	_, err := web.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	available := func(want int32) func(context.Context) error {
		return func(ctx context.Context) error {
			deployment, err := web.Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := deployment.Status; s.AvailableReplicas != want || s.Replicas != want {
				return fmt.Errorf("want %d replicas, have %+v", want, s)
			}
			return podsRun(ctx, namespace, int(want))
		}
	}
	framework.Eventually(t, "3 pods run", available(3))

	_, err = web.UpdateScale(t.Context(), "web", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 1},
	}, metav1.UpdateOptions{})
	require.NoError(t, err)
	framework.Eventually(t, "1 pod runs", available(1))

	require.NoError(t, web.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	framework.Eventually(t, "no pod is left", func(ctx context.Context) error { return podsRun(ctx, namespace, 0) })
}

// podsRun returns nil when a namespace has so many pods and they all run on the fake node.
func podsRun(ctx context.Context, namespace string, want int) error {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(pods.Items) != want {
		return fmt.Errorf("want %d pods, have %d", want, len(pods.Items))
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName != nodeName {
			return fmt.Errorf("pod %s on node %q is %+v", pod.Name, pod.Spec.NodeName, pod.Status)
		}
	}
	return nil
}
