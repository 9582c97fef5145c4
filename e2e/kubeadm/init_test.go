// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	configPath = "/etc/kubernetes/kubeadm.yaml"
	podSubnet  = "10.244.0.0/16"
)

// initConfig is what docs/kubeadm.md shows, and what containers as nodes need besides: names in the certificate for clients outside of the
// cluster, cgroups and disks of their own, and no sysctl of the kernel.
const initConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
patches: {directory: %[1]s}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %[2]s
controlPlaneEndpoint: %[3]s:6443
networking: {podSubnet: %[4]s}
apiServer: {certSANs: [localhost, 127.0.0.1]}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupRoot: /kubelet
failSwapOn: false
failCgroupV1: false
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: 0%%, nodefs.inodesFree: 0%%, imagefs.available: 0%%}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0}
`

func testInit(t *testing.T, build string) {
	first.patch(t, imageOf(build))
	first.write(t, configPath, fmt.Sprintf(initConfig, patchDir, kubernetes, string(first), podSubnet))
	first.run(t, "kubeadm", "init", "--config="+configPath, ignored)
	require.NoError(t, env.Cluster.Connect(t.Context(), env.Dir))
	first.expectTripod(t, build)
	connectPods(t, 1)
	first.waitForNode(t)
	checkCluster(t)
	assert.Contains(t, first.kubectl(t, "get", "nodes", "--no-headers"), string(first))
}

// connectPods gives the nodes that have joined the pod network, which kubeadm leaves to the user.
func connectPods(t *testing.T, nodes int) {
	t.Helper()
	require.NoError(t, env.Cluster.ConnectPods(t.Context(), nodes, podSubnet))
}

// checkCluster checks that the cluster works: what kubeadm installs is there, on all nodes.
func checkCluster(t *testing.T) {
	t.Helper()
	eventually(t, "CoreDNS and kube-proxy run", func(ctx context.Context) error {
		dns, err := env.Cluster.Client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if dns.Status.ReadyReplicas != *dns.Spec.Replicas {
			return fmt.Errorf("%d of %d pods of CoreDNS are ready", dns.Status.ReadyReplicas, *dns.Spec.Replicas)
		}
		proxy, err := env.Cluster.Client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
		if err == nil && (proxy.Status.NumberReady != proxy.Status.DesiredNumberScheduled || proxy.Status.NumberReady == 0) {
			err = fmt.Errorf("%d of %d pods of kube-proxy are ready", proxy.Status.NumberReady, proxy.Status.DesiredNumberScheduled)
		}
		return err
	})
}

// checkPod checks that the API server reaches the kubelet of the worker, and the pod there the API server and the DNS of the cluster. It tries
// again, as users would: an API server closes its connections to kubelets when the certificate that it shows them is renewed.
func checkPod(t *testing.T) {
	t.Helper()
	for _, arguments := range [][]string{
		{"logs", "echo", "--tail=1"},
		{"exec", "echo", "--", "/workload", "api", "/version"},
		{"exec", "echo", "--", "/workload", "get", "http://echo.default.svc.cluster.local/"},
	} {
		eventually(t, "kubectl "+strings.Join(arguments, " "), func(ctx context.Context) error {
			output, err := first.exec(ctx, nil, "kubectl", append([]string{"--kubeconfig=" + adminConfig}, arguments...)...)
			if err == nil && output == "" {
				err = errors.New("it prints nothing")
			}
			return err
		})
	}
}
