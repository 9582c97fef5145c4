// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"

	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/test/framework"
)

const workloadImage = "tripod-e2e/workload:dev"

// servers are two pods behind a Service.
const servers = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: server, image: "` + workloadImage + `", args: [serve], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
`

// TestANodeJoinsAndLeaves has a machine join Tripod and run pods, as docs/install.md says. Each part needs those before.
func TestANodeJoinsAndLeaves(t *testing.T) {
	node := newMachine(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *kindcluster.Cluster)
	}{
		{"joins", joins},
		{"hides its kubelet", hidesItsKubelet},
		{"becomes ready", becomesReady},
		{"has tunnels", hasTunnels},
		{"runs pods", runsPods},
		{"runs webhooks and an API server", runsServersOfTheAPI},
		{"deletes a namespace", namespaceGoes},
		{"outlives a controller manager", controllerManagerEnds},
		{"leaves", leaves},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, node) }) {
			return
		}
	}
}

func joins(t *testing.T, node *kindcluster.Cluster) {
	command, err := tripod.Tripod(t.Context(), "join", "token", "--ttl=1h")
	require.NoError(t, err)
	words := strings.Fields(command)
	require.Equal(t, []string{"kubeadm", "join", endpoint}, words[:3])
	// The checks of preflight are about a machine that is no container.
	_, err = node.Exec(t.Context(), nil, kubeadm, append(words[1:], "--skip-phases=preflight")...)
	require.NoError(t, err)
	framework.Eventually(t, "the kubelet registers its node, which kubeadm does not wait for", func(ctx context.Context) error {
		_, err := client.CoreV1().Nodes().Get(ctx, node.NodeName(), metav1.GetOptions{})
		return err
	})
	requests, err := client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, requests.Items)
	assert.NotEmpty(t, requests.Items[0].Status.Certificate, "kube-controller-manager has signed it")
}

// becomesReady waits for what the release has installed: a network, kube-proxy and CoreDNS.
func becomesReady(t *testing.T, node *kindcluster.Cluster) {
	kubectl(t, "", "--namespace=kube-system", "get", "configmap", "network")
	framework.Eventually(t, "the node is ready", func(ctx context.Context) error {
		joined, err := client.CoreV1().Nodes().Get(ctx, node.NodeName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range joined.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", joined.Status.Conditions)
	})
	joined, err := client.CoreV1().Nodes().Get(t.Context(), node.NodeName(), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "10.244.0.0/24", joined.Spec.PodCIDR, "kube-controller-manager gives it a part of clusterCIDR")
	for _, object := range []string{"daemonset/" + constants.KubeProxy, "deployment/" + constants.CoreDNSDeploymentName} {
		kubectl(t, "", "--namespace=kube-system", "rollout", "status", "--timeout=3m", object)
	}
}

// namespaceGoes deletes a namespace in which a pod runs.
func namespaceGoes(t *testing.T, _ *kindcluster.Cluster) {
	kubectl(t, "", "create", "namespace", "going")
	kubectl(t, servers, "--namespace=going", "apply", "-f", "-")
	kubectl(t, "", "--namespace=going", "rollout", "status", "--timeout=3m", "deployment/server")
	kubectl(t, "", "delete", "namespace", "going", "--timeout=2m")
}

// runsPods uses pods as users do, and has them use the API.
func runsPods(t *testing.T, node *kindcluster.Cluster) {
	archive, err := imagearchive.Build(t.TempDir(), workloadImage, "github.com/tripod-k8s/tripod/e2e/workload")
	require.NoError(t, err)
	_, err = node.Load(archive)
	require.NoError(t, err)
	kubectl(t, servers, "apply", "-f", "-")
	kubectl(t, "", "rollout", "status", "--timeout=3m", "deployment/server")
	pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app=server"})
	require.NoError(t, err)
	require.Len(t, pods.Items, 2)
	first, second := pods.Items[0].Name, pods.Items[1].Name
	assert.Contains(t, kubectl(t, "", "logs", first), "line 0\n")
	assert.Equal(t, "hello", kubectl(t, "hello", "exec", "-i", first, "--", "/workload", "cat"))
	framework.Eventually(t, "one pod reaches both by the name of their Service", func(ctx context.Context) error {
		host, err := tripod.Kubectl(ctx, "", "exec", first, "--", "/workload", "get", "http://server")
		if err == nil && strings.TrimSpace(host) != second {
			err = fmt.Errorf("%s answers", host)
		}
		return err
	})
	assert.Contains(t, kubectl(t, "", "exec", first, "--", "/workload", "api", "/api"), `"versions"`, "as its ServiceAccount, at the Service kubernetes")
}

// controllerManagerEnds stops the kube-controller-manager that works. Another one goes on.
func controllerManagerEnds(t *testing.T, _ *kindcluster.Cluster) {
	holder := func(ctx context.Context) (string, error) {
		lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, constants.KubeControllerManager, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return "", err
		}
		pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		return pod, nil
	}
	before, err := holder(t.Context())
	require.NoError(t, err)
	_, err = tripod.HostKubectl(t.Context(), "", "delete", "pod", before)
	require.NoError(t, err)
	framework.Eventually(t, "another one has the lease", func(ctx context.Context) error {
		now, err := holder(ctx)
		if err == nil && (now == before || now == "") {
			err = fmt.Errorf("%q has it", now)
		}
		return err
	})
	kubectl(t, "", "scale", "--replicas=3", "deployment/server")
	kubectl(t, "", "rollout", "status", "--timeout=3m", "deployment/server")
}

func leaves(t *testing.T, node *kindcluster.Cluster) {
	kubectl(t, "", "drain", node.NodeName(), "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m")
	kubectl(t, "", "delete", "node", node.NodeName())
	_, err := node.Exec(t.Context(), nil, kubeadm, "reset", "--force")
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().Get(t.Context(), node.NodeName(), metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "the node is there again: %v", err)
	pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app=server"})
	require.NoError(t, err)
	require.Len(t, pods.Items, 3)
	for _, pod := range pods.Items {
		assert.Equal(t, corev1.PodPending, pod.Status.Phase, "%s waits for a node", pod.Name)
		assert.Empty(t, pod.Spec.NodeName)
	}
}

// kubectl runs kubectl for the administrator of Tripod.
func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	output, err := tripod.Kubectl(t.Context(), stdin, args...)
	require.NoError(t, err)
	return output
}
