// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcluster

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

var networks = []nodeNetwork{
	{"one", netip.MustParseAddr("172.18.0.2"), netip.MustParsePrefix("10.244.0.0/24")},
	{"two", netip.MustParseAddr("172.18.0.3"), netip.MustParsePrefix("10.244.1.0/24")},
	{"three", netip.MustParseAddr("172.18.0.4"), netip.MustParsePrefix("10.244.2.0/24")},
}

func TestWorkersAreAdded(t *testing.T) {
	for name, test := range map[string]struct{ has, workers, want int }{
		"one node":                        {1, 0, 1},
		"two more":                        {1, 2, 3},
		"the configuration has more":      {4, 2, 4},
		"the configuration has a part":    {2, 2, 3},
		"the configuration has all nodes": {3, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			config := &v1alpha4.Cluster{Nodes: []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole}}}
			addWorkers(config, test.has-1)
			addWorkers(config, test.workers)
			assert.Len(t, config.Nodes, test.want)
			assert.Equal(t, v1alpha4.ControlPlaneRole, config.Nodes[0].Role)
			assert.False(t, needsPodNetwork(config), "kind installs kindnet")
			config.Networking.DisableDefaultCNI = true
			assert.Equal(t, test.want > 1, needsPodNetwork(config))
		})
	}
}

func TestNodesReachThePodsOfOthers(t *testing.T) {
	assert.Equal(t, [][]string{
		{"sh", "-c", "iptables -t nat -C POSTROUTING -s 10.244.1.0/24 ! -d 10.244.0.0/16 -j MASQUERADE || " +
			"iptables -t nat -A POSTROUTING -s 10.244.1.0/24 ! -d 10.244.0.0/16 -j MASQUERADE"},
		{"ip", "route", "replace", "10.244.0.0/24", "via", "172.18.0.2"},
		{"ip", "route", "replace", "10.244.2.0/24", "via", "172.18.0.4"},
	}, networkCommands(networks[1], networks, "10.244.0.0/16"))
}

func TestNetworkOfANode(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: "fc00::2"}, {Type: corev1.NodeInternalIP, Address: "172.18.0.2"},
		}},
	}
	_, err := networkOf(node)
	assert.ErrorContains(t, err, "the node one has no IPv4 range")
	node.Spec.PodCIDR = "10.244.0.0/24"
	network, err := networkOf(node)
	require.NoError(t, err)
	assert.Equal(t, networks[0], network)
	node.Status.Addresses = node.Status.Addresses[:2]
	_, err = networkOf(node)
	assert.ErrorContains(t, err, "no internal IPv4 address")
}

func TestPodsGetAddressesOfTheNetwork(t *testing.T) {
	pod := func(name string, hostNetwork bool) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"}, Spec: corev1.PodSpec{HostNetwork: hostNetwork}}
	}
	client := fake.NewClientset(pod("coredns", false), pod("kube-proxy", true))
	require.NoError(t, renewPods(t.Context(), client))
	left, err := client.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, left.Items, 1)
	assert.Equal(t, "kube-proxy", left.Items[0].Name)
}
