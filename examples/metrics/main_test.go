// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/apiservice/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, service())) }

const assets = "../../bin/test-assets"

// cluster is an API with the service, which may read pods and nodes.
type cluster struct {
	*apitest.API
	t      *testing.T
	client kubernetes.Interface
}

func start(t *testing.T) cluster {
	t.Helper()
	api := apitest.Start(t, service())
	client, err := kubernetes.NewForConfig(api.Admin())
	require.NoError(t, err)
	c := cluster{api, t, client}
	c.kubectl("apply", "-f", "rights.yaml")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	node, err = client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	node.Status.Capacity = node.Status.Allocatable
	_, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
	return c
}

// run runs the kubectl of tripod, which apitest finds in the same way.
func (c cluster) run(args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), "tripod", append([]string{"kubectl", "--kubeconfig=" + c.Kubeconfig()}, args...)...)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func (c cluster) kubectl(args ...string) string {
	c.t.Helper()
	output, err := c.run(args...)
	require.NoError(c.t, err, output)
	return output
}

// top returns the words of the lines of kubectl top, once it has a number of them.
func (c cluster) top(lines int, args ...string) []string {
	c.t.Helper()
	var found []string
	require.EventuallyWithT(c.t, func(ct *assert.CollectT) { // the rights of the service come into force
		found = nil
		output, err := c.run(append(append([]string{"top"}, args...), "--no-headers")...)
		require.NoError(ct, err, output)
		for line := range strings.Lines(output) {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
		require.Len(ct, found, lines, output)
	}, time.Minute, 50*time.Millisecond)
	return found
}

func template(cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": "web"},
			Annotations: map[string]string{"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": "64Mi"},
		},
		Spec: corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{
			Name: "web", Image: "web", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
			},
		}}},
	}
}

// ready makes pods run, as a kubelet does, as if for an hour.
func (c cluster) ready(ctx context.Context) error {
	pods, err := c.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	since := metav1.NewTime(time.Now().Add(-time.Hour))
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning {
			continue
		}
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &since
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}}
		if _, err := c.client.CoreV1().Pods("default").UpdateStatus(ctx, &pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (c cluster) serviceAccount() {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := c.client.CoreV1().ServiceAccounts("default").Create(c.t.Context(), account, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func TestKubectlTop(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.serviceAccount()
	for i, cpu := range []string{"250m", "50m"} {
		made := template(cpu)
		pod := &corev1.Pod{ObjectMeta: made.ObjectMeta, Spec: made.Spec}
		pod.Name = fmt.Sprintf("web-%d", i)
		_, err := c.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, c.ready(t.Context()))
	assert.Equal(t, []string{"web-0 250m 64Mi", "web-1 50m 64Mi"}, c.top(2, "pods"))
	assert.Equal(t, []string{"web-0 250m 64Mi", "web-1 50m 64Mi"}, c.top(2, "pods", "--sort-by=cpu", "--selector=app=web"))
	assert.Equal(t, []string{"node-a 300m 15% 128Mi 12%"}, c.top(1, "nodes"))
	c.Allow("jane", rbacv1.PolicyRule{APIGroups: []string{"metrics.k8s.io"}, Resources: []string{"pods"}, Verbs: []string{"list"}})
	output, err := c.run("top", "nodes", "--as=jane")
	require.Error(t, err)
	assert.Contains(t, output, `cannot list resource "nodes" in API group "metrics.k8s.io"`)
	assert.Contains(t, c.kubectl("top", "pods", "--as=jane"), "web-0")
}

// Kubernetes' controllers ask the service, and nothing else knows what pods use.
func TestAnAutoscalerScales(t *testing.T) {
	t.Parallel()
	c := start(t)
	ctx := t.Context()
	controllers, err := filepath.Abs(filepath.Join(assets, "kube-controller-manager"))
	require.NoError(t, err)
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, controllers, "--kubeconfig="+c.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
		"--controllers=deployment-controller,replicaset-controller,serviceaccount-controller,horizontal-pod-autoscaler-controller",
		"--horizontal-pod-autoscaler-sync-period=1s")
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	one := int32(1)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	_, err = c.client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &one, Selector: selector, Template: template("150m")},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	target := int32(50) // percent of the 100m that a pod requests, so three pods are needed for what one of them uses
	_, err = c.client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    &one, MaxReplicas: 3,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &target},
			}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		if c.ready(ctx) != nil {
			return false // a controller changes a pod, too
		}
		found, err := c.client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && *found.Spec.Replicas == 3
	}, 3*time.Minute, 100*time.Millisecond, "the autoscaler scales to three")
}
