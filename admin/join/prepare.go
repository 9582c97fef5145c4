// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeproxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/bootstraptoken/clusterinfo"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/bootstraptoken/node"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/kubelet"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/uploadconfig"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	"sigs.k8s.io/yaml"
)

// askAgain is how long Prepare waits until it asks again whether the API is there.
const askAgain = time.Second

// Config describes a cluster to nodes that join.
type Config struct {
	// Version is that of the API, such as v1.36.3.
	Version string
	// Endpoint is the host and the port at which nodes reach the API, and CA has the authorities of its certificate, in PEM.
	Endpoint string
	CA       []byte
	// ServiceCIDR has the addresses of Services, and PodCIDR those of pods, or is empty if the network plugin knows them.
	ServiceCIDR, PodCIDR string
	// DNSDomain is the domain of the Services of the cluster.
	DNSDomain string
	// Kubelet is a KubeletConfiguration with the fields that shall differ from what kubeadm chooses, in YAML. It may be empty.
	Kubelet []byte
	// Addons are installed besides.
	Addons Addons
}

// Validate returns an error if kubeadm would not accept the configuration.
func (c Config) Validate() error {
	_, err := c.kubeadm()
	return err
}

// kubeadm returns what `kubeadm init` would make of the configuration.
func (c Config) kubeadm() (*kubeadmapi.InitConfiguration, error) {
	if c.Endpoint == "" {
		return nil, errors.New("the host and the port at which nodes reach the API are missing")
	}
	if len(c.CA) == 0 {
		return nil, errors.New("the CA of the API is missing: a kubeconfig with certificate-authority or certificate-authority-data has it")
	}
	cluster := kubeadmapiv1.ClusterConfiguration{
		TypeMeta:             metav1.TypeMeta{APIVersion: kubeadmapiv1.SchemeGroupVersion.String(), Kind: constants.ClusterConfigurationKind},
		KubernetesVersion:    c.Version,
		ControlPlaneEndpoint: c.Endpoint,
		Networking:           kubeadmapiv1.Networking{ServiceSubnet: c.ServiceCIDR, PodSubnet: c.PodCIDR, DNSDomain: c.DNSDomain},
	}
	here := kubeadmapiv1.InitConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeadmapiv1.SchemeGroupVersion.String(), Kind: constants.InitConfigurationKind},
		// This machine serves no API. Without an address of a range for documentation (RFC 5737), kubeadm would look for one of this machine.
		LocalAPIEndpoint: kubeadmapiv1.APIEndpoint{AdvertiseAddress: "192.0.2.1"},
	}
	var documents [][]byte
	if len(c.Kubelet) > 0 {
		// kubeadm only warns of unknown fields.
		if err := yaml.UnmarshalStrict(c.Kubelet, &kubeletconfig.KubeletConfiguration{}); err != nil {
			return nil, fmt.Errorf("the KubeletConfiguration: %w", err)
		}
		documents = append(documents, c.Kubelet)
	}
	if len(c.Addons.KubeProxyConfig) > 0 {
		if err := yaml.UnmarshalStrict(c.Addons.KubeProxyConfig, &kubeproxyconfig.KubeProxyConfiguration{}); err != nil {
			return nil, fmt.Errorf("the KubeProxyConfiguration: %w", err)
		}
		documents = append(documents, c.Addons.KubeProxyConfig)
	}
	for _, object := range []any{cluster, here} {
		document, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return config.BytesToInitConfiguration(bytes.Join(documents, []byte("\n---\n")), true)
}

// Prepare writes what nodes need to join, as soon as the API is there. It may run again, and then replaces what is there.
func Prepare(ctx context.Context, client kubernetes.Interface, c Config) error {
	cfg, err := c.kubeadm()
	if err != nil {
		return err
	}
	if err := await(ctx, client); err != nil {
		return err
	}
	info := clientcmdapi.NewConfig()
	info.Clusters["cluster"] = &clientcmdapi.Cluster{Server: "https://" + cfg.ControlPlaneEndpoint, CertificateAuthorityData: c.CA}
	info.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster"}
	info.CurrentContext = "context"
	for _, step := range []func() error{
		func() error { return uploadconfig.UploadConfiguration(cfg, client) },
		func() error { return kubelet.CreateConfigMap(&cfg.ClusterConfiguration, client) },
		func() error { return node.AllowBootstrapTokensToGetNodes(client) },
		func() error { return node.AllowBootstrapTokensToPostCSRs(client) },
		func() error { return node.AutoApproveNodeBootstrapTokens(client) },
		func() error { return node.AutoApproveNodeCertificateRotation(client) },
		func() error { return clusterinfo.CreateClusterInfoRBACRules(client) },
		func() error { return clusterinfo.CreateBootstrapConfigMapIfNotExists(client, info) },
		func() error { return c.Addons.install(ctx, cfg, client) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// await returns when core has made the namespaces of the system.
func await(ctx context.Context, client kubernetes.Interface) error {
	var last error
	for _, namespace := range []string{metav1.NamespaceSystem, metav1.NamespacePublic} {
		err := wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
			_, last = client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("the API is not ready: %w", errors.Join(context.Cause(ctx), last))
		}
	}
	return nil
}
