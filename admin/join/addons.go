// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/coredns/corefile-migration/migration"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/images"
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
func (a Addons) install(ctx context.Context, cfg *kubeadmapi.InitConfiguration, client kubernetes.Interface) error {
	if a.CoreDNS {
		if err := a.installCoreDNS(ctx, cfg.ClusterConfiguration.DeepCopy(), client); err != nil {
			return fmt.Errorf("cannot install CoreDNS: %w", err)
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

// installCoreDNS installs CoreDNS, or changes its version. kubeadm adapts the Corefile to a newer version, but refuses one that it does not
// know, such as that of a newer Tripod before one goes back. Then only the image changes.
func (a Addons) installCoreDNS(ctx context.Context, cluster *kubeadmapi.ClusterConfiguration, client kubernetes.Interface) error {
	cluster.DNS.ImageRepository, cluster.DNS.ImageTag = a.CoreDNSImage.Repository, a.CoreDNSImage.Tag
	deployments := client.AppsV1().Deployments(metav1.NamespaceSystem)
	deployed, err := deployments.Get(ctx, constants.CoreDNSDeploymentName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && a.CoreDNSImage.Tag == "" && canMigrate(deployed) {
		return dns.EnsureDNSAddon(cluster, client, "", io.Discard, false)
	}
	if err != nil {
		return err
	}
	containers := deployed.Spec.Template.Spec.Containers
	if image := images.GetDNSImage(cluster); len(containers) > 0 && containers[0].Image != image {
		containers[0].Image = image
		_, err = deployments.Update(ctx, deployed, metav1.UpdateOptions{})
	}
	return err
}

// canMigrate reports whether kubeadm can adapt the Corefile of a deployed CoreDNS to its own version.
func canMigrate(deployed *appsv1.Deployment) bool {
	containers := deployed.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return false
	}
	_, tag, _ := strings.Cut(containers[0].Image[strings.LastIndex(containers[0].Image, "/")+1:], ":")
	own := strings.TrimPrefix(constants.CoreDNSVersion, "v")
	tag = strings.TrimPrefix(tag, "v")
	return tag == own || migration.ValidUpMigration(tag, own) == nil
}
