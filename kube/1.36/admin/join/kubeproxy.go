// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"io"

	"k8s.io/client-go/kubernetes"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/addons/proxy"
)

// ensureKubeProxy calls kubeadm, whose function has other parameters in other versions (kube/).
func ensureKubeProxy(cluster *kubeadmapi.ClusterConfiguration, local *kubeadmapi.APIEndpoint, client kubernetes.Interface) error {
	return proxy.EnsureProxyAddon(cluster, local, client, io.Discard, false)
}
