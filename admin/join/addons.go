// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"io"

	"k8s.io/client-go/kubernetes"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/addons/dns"
)

// Image changes where the image of an addon comes from. Empty fields leave what kubeadm chooses.
type Image struct {
	// Repository contains the image, as in registry.k8s.io. The image has its name there.
	Repository string
	// Tag is its version.
	Tag string
}

// Addons says which addons of kubeadm [Prepare] installs. It leaves others as they are.
type Addons struct {
	// CoreDNS resolves the names of Services. A Corefile that the user has changed stays.
	CoreDNS bool
	// CoreDNSImage is called coredns in its repository.
	CoreDNSImage Image
	// KubeProxy has nodes reach Services.
	KubeProxy bool
	// KubeProxyImage is called kube-proxy in its repository. Its tag may be that of an older version of Kubernetes than Tripod's.
	KubeProxyImage Image
	// KubeProxyConfig is a KubeProxyConfiguration with the fields that shall differ from what kubeadm chooses, in YAML. It may be empty.
	KubeProxyConfig []byte
}

// install installs the addons in a cluster.
func (a Addons) install(cfg *kubeadmapi.InitConfiguration, client kubernetes.Interface) error {
	if a.CoreDNS {
		cluster := cfg.ClusterConfiguration.DeepCopy()
		cluster.DNS.ImageRepository, cluster.DNS.ImageTag = a.CoreDNSImage.Repository, a.CoreDNSImage.Tag
		if err := dns.EnsureDNSAddon(cluster, client, "", io.Discard, false); err != nil {
			return err
		}
	}
	if !a.KubeProxy {
		return nil
	}
	cluster := cfg.ClusterConfiguration.DeepCopy()
	// kubeadm knows no other image of kube-proxy than that of the cluster.
	if a.KubeProxyImage.Repository != "" {
		cluster.ImageRepository = a.KubeProxyImage.Repository
	}
	if a.KubeProxyImage.Tag != "" {
		cluster.KubernetesVersion = a.KubeProxyImage.Tag
	}
	return ensureKubeProxy(cluster, &cfg.LocalAPIEndpoint, client)
}
