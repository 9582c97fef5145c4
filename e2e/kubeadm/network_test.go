// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// network is the pod network of a node. Its plugins are in all images of kind's nodes.
const network = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
    "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": %q}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

// connectPods gives a new node the pod network, which kubeadm leaves to the user.
func connectPods(t *testing.T, m machine) {
	t.Helper()
	subnet, address := "", ""
	eventually(t, string(m)+" has addresses for itself and its pods", func(ctx context.Context) error {
		node, err := env.Cluster.Client.CoreV1().Nodes().Get(ctx, string(m), metav1.GetOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
		if i < 0 || node.Spec.PodCIDR == "" {
			return fmt.Errorf("it has %v and %q", node.Status.Addresses, node.Spec.PodCIDR)
		}
		subnet, address = node.Spec.PodCIDR, node.Status.Addresses[i].Address
		return nil
	})
	m.write(t, networkDir+"/10-pods.conflist", fmt.Sprintf(network, subnet))
	for _, other := range []machine{first, worker, second} {
		if other != m {
			other.run(t, "ip", "route", "replace", subnet, "via", address)
		}
	}
}
