// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

const (
	// defaultPodSubnet is kind's default.
	defaultPodSubnet = "10.244.0.0/16"
	// networkPath sorts before what the image of the node may have. The container runtime takes the first file.
	networkPath = "/etc/cni/net.d/00-pods.conflist"
	// networkConfig gives a pod an address of its node's range. The node masquerades, because the plugin would do so between nodes, too.
	networkConfig = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {"type": "ptp", "ipMasq": false, "ipam": {
      "type": "host-local", "dataDir": "/run/cni-pods", "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": %q}]]
    }},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`
)

// needsPodNetwork returns whether pods of different nodes would not reach each other: kind installs no network, and the image of the node
// knows only its own node.
func needsPodNetwork(config *v1alpha4.Cluster) bool {
	return config.Networking.DisableDefaultCNI && len(config.Nodes) > 1
}

// nodeNetwork is what the others need to know of a node.
type nodeNetwork struct {
	name    string
	address netip.Addr
	pods    netip.Prefix
}

// connectPods connects the pods of a new cluster, also of those that run already.
func (c *Cluster) connectPods(ctx context.Context, config *v1alpha4.Cluster) error {
	if err := c.ConnectPods(ctx, len(config.Nodes), cmp.Or(config.Networking.PodSubnet, defaultPodSubnet)); err != nil {
		return err
	}
	if err := renewPods(ctx, c.Client); err != nil {
		return err
	}
	return c.awaitNodesAndPods(ctx)
}

// ConnectPods does for pods what kindnet does: each node gives its pods addresses of its own range, has routes to the ranges of the others,
// and masquerades what leaves subnet. It waits for that many nodes, and can be called again when more nodes have joined.
func (c *Cluster) ConnectPods(ctx context.Context, nodes int, subnet string) error {
	networks, err := c.nodeNetworks(ctx, nodes)
	if err != nil {
		return err
	}
	for _, node := range networks {
		conflist := strings.NewReader(fmt.Sprintf(networkConfig, node.pods))
		if _, err := c.ExecOn(ctx, node.name, conflist, "cp", "/dev/stdin", networkPath); err != nil {
			return err
		}
		for _, command := range networkCommands(node, networks, subnet) {
			if _, err := c.ExecOn(ctx, node.name, nil, command[0], command[1:]...); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodeNetworks returns the networks of all nodes once the controller manager has given each its range.
func (c *Cluster) nodeNetworks(ctx context.Context, count int) ([]nodeNetwork, error) {
	var networks []nodeNetwork
	return networks, eventually(ctx, "each node has a range for its pods", func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) < count {
			return fmt.Errorf("%d of %d nodes have joined", len(list.Items), count)
		}
		networks = nil
		for i := range list.Items {
			network, err := networkOf(&list.Items[i])
			if err != nil {
				return err
			}
			networks = append(networks, network)
		}
		return nil
	})
}

func networkOf(node *corev1.Node) (nodeNetwork, error) {
	pods, err := netip.ParsePrefix(node.Spec.PodCIDR)
	if err != nil || !pods.Addr().Is4() {
		return nodeNetwork{}, errors.Join(fmt.Errorf("the node %s has no IPv4 range for its pods: %q", node.Name, node.Spec.PodCIDR), err)
	}
	for _, address := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(address.Address); err == nil && address.Type == corev1.NodeInternalIP && ip.Is4() {
			return nodeNetwork{name: node.Name, address: ip, pods: pods}, nil
		}
	}
	return nodeNetwork{}, fmt.Errorf("the node %s has no internal IPv4 address", node.Name)
}

// networkCommands returns the programs that connect the pods of a node to those of the others.
func networkCommands(node nodeNetwork, all []nodeNetwork, subnet string) [][]string {
	rule := fmt.Sprintf("POSTROUTING -s %s ! -d %s -j MASQUERADE", node.pods, subnet)
	commands := [][]string{{"sh", "-c", fmt.Sprintf("iptables -t nat -C %[1]s || iptables -t nat -A %[1]s", rule)}}
	for _, other := range all {
		if other.name != node.name {
			commands = append(commands, []string{"ip", "route", "replace", other.pods.String(), "via", other.address.String()})
		}
	}
	return commands
}

// renewPods deletes the pods that started before: their addresses may be of another node's range, and this network would assign them again.
func renewPods(ctx context.Context, client kubernetes.Interface) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.HostNetwork {
			continue
		}
		if err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// awaitNodesAndPods returns when all nodes and pods are ready.
func (c *Cluster) awaitNodesAndPods(ctx context.Context) error {
	return eventually(ctx, "all nodes and pods are ready", func(ctx context.Context) error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			ready := func(is corev1.NodeCondition) bool {
				return is.Type == corev1.NodeReady && is.Status == corev1.ConditionTrue
			}
			if !slices.ContainsFunc(nodes.Items[i].Status.Conditions, ready) {
				return fmt.Errorf("the node %s is not ready", nodes.Items[i].Name)
			}
		}
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			ready := func(is corev1.PodCondition) bool {
				return is.Type == corev1.PodReady && is.Status == corev1.ConditionTrue
			}
			if pods.Items[i].DeletionTimestamp != nil || !slices.ContainsFunc(pods.Items[i].Status.Conditions, ready) {
				return fmt.Errorf("the pod %s is not ready", pods.Items[i].Name)
			}
		}
		return nil
	})
}

// eventually retries until there is no error.
func eventually(ctx context.Context, what string, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: not within %s: %w", what, readyTimeout, errors.Join(last, ctx.Err()))
	}
	return nil
}
