// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command metrics serves metrics.k8s.io as metrics-server does, for kubectl top and for autoscalers. It has the usage of a pod from
// annotations, which are those of kwok. Replace usageOf by a function that measures.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/metrics/pkg/apis/metrics"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/examples/metrics/openapi"
)

func main() { os.Exit(apiservice.Main(service())) }

func service() apiservice.Service {
	m := &meter{}
	return apiservice.Service{
		Name:        "metrics",
		Description: "metrics serves what nodes and pods use.",
		AddToScheme: []func(*runtime.Scheme) error{metrics.AddToScheme, v1beta1.AddToScheme},
		Definitions: openapi.GetOpenAPIDefinitions,
		Prepare: func(_ context.Context, e *apiservice.Environment) error {
			m.cluster = e.Kubernetes
			return nil
		},
		Groups: []apiservice.Group{{
			Name:     metrics.GroupName,
			Versions: []string{"v1beta1"},
			Resources: []apiservice.Resource{
				apiservice.ReadOnly[*metrics.NodeMetrics]{
					Name: "nodes", Singular: "node", ClusterScoped: true, List: m.nodes,
					Columns: []apiservice.Column[*metrics.NodeMetrics]{
						{Name: "CPU", Value: func(n *metrics.NodeMetrics) any { return n.Usage.Cpu().String() }},
						{Name: "Memory", Value: func(n *metrics.NodeMetrics) any { return n.Usage.Memory().String() }},
					},
				},
				apiservice.ReadOnly[*metrics.PodMetrics]{Name: "pods", Singular: "pod", List: m.pods},
			},
		}},
	}
}

// meter knows what pods use.
type meter struct{ cluster kubernetes.Interface }

// window is the time that a measurement stands for.
const window = 15 * time.Second

// usageOf returns what a container of a pod uses.
func usageOf(pod *corev1.Pod) (corev1.ResourceList, error) {
	usage := corev1.ResourceList{}
	for name, annotation := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: "kwok.x-k8s.io/usage-cpu", corev1.ResourceMemory: "kwok.x-k8s.io/usage-memory",
	} {
		text := pod.Annotations[annotation]
		if text == "" {
			text = "0"
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("annotation %s of pod %s/%s: %w", annotation, pod.Namespace, pod.Name, err)
		}
		usage[name] = quantity
	}
	return usage, nil
}

// running calls a function with each pod that runs, and what each of its containers uses. A pod with a wrong annotation has no metrics.
func (m *meter) running(ctx context.Context, namespace string, f func(*corev1.Pod, corev1.ResourceList)) error {
	pods, err := m.cluster.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if usage, err := usageOf(&pods.Items[i]); err == nil {
			f(&pods.Items[i], usage)
		}
	}
	return nil
}

func (m *meter) pods(ctx context.Context, namespace string) ([]*metrics.PodMetrics, error) {
	all := []*metrics.PodMetrics{}
	err := m.running(ctx, namespace, func(pod *corev1.Pod, usage corev1.ResourceList) {
		measured := &metrics.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, CreationTimestamp: metav1.Now(),
			},
			Timestamp: metav1.Now(), Window: metav1.Duration{Duration: window},
		}
		for _, container := range pod.Spec.Containers {
			measured.Containers = append(measured.Containers, metrics.ContainerMetrics{Name: container.Name, Usage: usage})
		}
		all = append(all, measured)
	})
	return all, err
}

// nodes returns for each node what its pods use.
func (m *meter) nodes(ctx context.Context, _ string) ([]*metrics.NodeMetrics, error) {
	nodes, err := m.cluster.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	used := map[string]corev1.ResourceList{}
	err = m.running(ctx, metav1.NamespaceAll, func(pod *corev1.Pod, usage corev1.ResourceList) {
		if used[pod.Spec.NodeName] == nil {
			used[pod.Spec.NodeName] = corev1.ResourceList{}
		}
		for range pod.Spec.Containers {
			for name, quantity := range usage {
				sum := used[pod.Spec.NodeName][name]
				sum.Add(quantity)
				used[pod.Spec.NodeName][name] = sum
			}
		}
	})
	all := []*metrics.NodeMetrics{}
	for _, node := range nodes.Items {
		all = append(all, &metrics.NodeMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, CreationTimestamp: metav1.Now()},
			Timestamp:  metav1.Now(), Window: metav1.Duration{Duration: window}, Usage: used[node.Name],
		})
	}
	return all, err
}
