// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/test/framework"
)

// newPod returns the names of a pod, and of its namespace, on a node with a kubelet of its own.
func newPod(t testing.TB) (kubelet *framework.Kubelet, namespace, name string) {
	t.Helper()
	kubelet = framework.NewKubelet(func(err error) { t.Error(err) })
	t.Cleanup(kubelet.Close)
	client := kubeClient(t, cluster.Admin())
	node := framework.UniqueName("node")
	if err := kubelet.AddNode(t.Context(), client, node); err != nil {
		t.Fatal(err)
	}
	namespace = createNamespace(t)
	account, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	must(t, account, err)
	pod, err := client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}, metav1.CreateOptions{})
	return kubelet, namespace, must(t, pod, err).Name
}
