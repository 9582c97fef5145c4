// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubeproxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"sigs.k8s.io/yaml"
)

// proxyConfig returns a KubeProxyConfiguration with one field.
func proxyConfig(field string) []byte {
	return []byte("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" + field + "\n")
}

func TestAddonsAreThoseOfKubeadm(t *testing.T) {
	client, c := namespaces(), given(t)
	c.Addons = Addons{CoreDNS: true, KubeProxy: true}
	require.NoError(t, Prepare(t.Context(), client, c))
	assert.Equal(t, "registry.k8s.io/coredns/coredns:"+constants.CoreDNSVersion, dnsOf(t, client).Spec.Template.Spec.Containers[0].Image)
	assert.Equal(t, "registry.k8s.io/kube-proxy:"+c.Version, proxyOf(t, client).Spec.Template.Spec.Containers[0].Image)
	service, err := client.CoreV1().Services(metav1.NamespaceSystem).Get(t.Context(), "kube-dns", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "10.7.0.10", service.Spec.ClusterIP, "where kubelets look for it")
	file := data(t, client, "coredns", "Corefile")
	assert.Contains(t, file, "kubernetes example.org ")

	// The next run has other images and another configuration. The Corefile of the user stays.
	c.Addons.CoreDNSImage, c.Addons.KubeProxyImage = Image{"registry.example.com/dns", "v1.2.3"}, Image{"registry.example.com", "v1.34.9"}
	c.Addons.KubeProxyConfig = proxyConfig("mode: nftables")
	changed, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "coredns", metav1.GetOptions{})
	require.NoError(t, err)
	changed.Data["Corefile"] = ".:53 {\n    forward . 192.0.2.53\n}\n"
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, Prepare(t.Context(), client, c))
	assert.Equal(t, "registry.example.com/dns/coredns:v1.2.3", dnsOf(t, client).Spec.Template.Spec.Containers[0].Image)
	assert.Equal(t, "registry.example.com/kube-proxy:v1.34.9", proxyOf(t, client).Spec.Template.Spec.Containers[0].Image)
	assert.Contains(t, data(t, client, "coredns", "Corefile"), "192.0.2.53")
	var config kubeproxyconfig.KubeProxyConfiguration
	require.NoError(t, yaml.Unmarshal([]byte(data(t, client, constants.KubeProxyConfigMap, constants.KubeProxyConfigMapKey)), &config))
	assert.EqualValues(t, "nftables", config.Mode)
	assert.Equal(t, c.PodCIDR, config.ClusterCIDR)
	assert.Contains(t, data(t, client, "kubeadm-config", "ClusterConfiguration"), "kubernetesVersion: "+c.Version+"\n", "the image of kube-proxy does not change it")

	// kubeadm knows neither the version that runs now nor one that a newer Tripod has left.
	for _, deployed := range []string{"v1.97.0-mirror", "v1.99.0"} {
		running := dnsOf(t, client)
		running.Spec.Template.Spec.Containers[0].Image = "registry.example.com/dns/coredns:" + deployed
		_, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Update(t.Context(), running, metav1.UpdateOptions{})
		require.NoError(t, err)
		for image, want := range map[Image]string{
			{"registry.example.com/dns", "v1.98.0"}: "registry.example.com/dns/coredns:v1.98.0",
			{}:                                      "registry.k8s.io/coredns/coredns:" + constants.CoreDNSVersion,
		} {
			c.Addons.CoreDNSImage = image
			require.NoError(t, Prepare(t.Context(), client, c), deployed)
			assert.Equal(t, want, dnsOf(t, client).Spec.Template.Spec.Containers[0].Image)
			assert.Contains(t, data(t, client, "coredns", "Corefile"), "192.0.2.53", "nothing adapts it")
		}
	}
}

func TestAddonsThatAreNotAskedForStayAway(t *testing.T) {
	client := namespaces()
	require.NoError(t, Prepare(t.Context(), client, given(t)))
	_, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), constants.CoreDNSDeploymentName, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), err)
	_, err = client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(t.Context(), constants.KubeProxy, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), err)
}

func dnsOf(t *testing.T, client kubernetes.Interface) *appsv1.Deployment {
	t.Helper()
	d, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), constants.CoreDNSDeploymentName, metav1.GetOptions{})
	require.NoError(t, err)
	return d
}

func proxyOf(t *testing.T, client kubernetes.Interface) *appsv1.DaemonSet {
	t.Helper()
	d, err := client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(t.Context(), constants.KubeProxy, metav1.GetOptions{})
	require.NoError(t, err)
	return d
}

// data returns what a ConfigMap in kube-system has for a key.
func data(t *testing.T, client kubernetes.Interface, name, key string) string {
	t.Helper()
	object, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return object.Data[key]
}
