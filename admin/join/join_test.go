// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/base/certs"
)

// given returns a configuration with a new CA.
func given(t *testing.T) Config {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	_, err = store.Authority("ca", "kubernetes")
	require.NoError(t, err)
	ca, err := os.ReadFile(store.CertFile("ca"))
	require.NoError(t, err)
	return Config{Version: "v1.36.3", Endpoint: "api.example.com:443", CA: ca, ServiceCIDR: "10.7.0.0/16", PodCIDR: "10.8.0.0/16", DNSDomain: "example.org"}
}

// namespaces are those that core makes.
func namespaces() *fake.Clientset {
	return fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespacePublic}})
}

func TestNodesReadHowTheClusterIs(t *testing.T) {
	client, c := namespaces(), given(t)
	read := func(namespace, name, key string, into any) {
		t.Helper()
		object, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal([]byte(object.Data[key]), into))
	}
	for _, maxPods := range []int32{110, 250} { // the second run changes what the first one wrote
		c.Kubelet, _ = yaml.Marshal(map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": maxPods})
		require.NoError(t, Prepare(t.Context(), client, c))

		var cluster kubeadmapiv1.ClusterConfiguration
		read(metav1.NamespaceSystem, "kubeadm-config", "ClusterConfiguration", &cluster)
		assert.Equal(t, c.Endpoint, cluster.ControlPlaneEndpoint)
		assert.Equal(t, c.Version, cluster.KubernetesVersion)
		assert.Equal(t, kubeadmapiv1.Networking{ServiceSubnet: c.ServiceCIDR, PodSubnet: c.PodCIDR, DNSDomain: c.DNSDomain}, cluster.Networking)

		var kubelet kubeletconfig.KubeletConfiguration
		read(metav1.NamespaceSystem, "kubelet-config", "kubelet", &kubelet)
		assert.Equal(t, maxPods, kubelet.MaxPods)
		assert.Equal(t, []string{"10.7.0.10"}, kubelet.ClusterDNS, "kubeadm chooses the tenth address")
		assert.Equal(t, c.DNSDomain, kubelet.ClusterDomain)
		assert.True(t, kubelet.RotateCertificates)
	}
	info, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(t.Context(), "cluster-info", metav1.GetOptions{})
	require.NoError(t, err)
	published, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	require.NoError(t, err)
	assert.Equal(t, "https://api.example.com:443", published.Clusters[""].Server)
	assert.Equal(t, c.CA, published.Clusters[""].CertificateAuthorityData)
	assert.Empty(t, published.AuthInfos, "everybody may read it")
}

func TestATokenComesWithTheCommandToJoin(t *testing.T) {
	client := namespaces()
	_, err := MakeToken(t.Context(), client, time.Hour, "")
	require.ErrorContains(t, err, "no node can join yet: run `tripod join prepare`")
	require.NoError(t, Prepare(t.Context(), client, given(t)))
	before := time.Now()
	made, err := MakeToken(t.Context(), client, time.Hour, "for one node")
	require.NoError(t, err)
	parts := regexp.MustCompile(`^kubeadm join api\.example\.com:443 --token ([a-z0-9]{6})\.([a-z0-9]{16}) --discovery-token-ca-cert-hash sha256:[0-9a-f]{64}$`).FindStringSubmatch(made.Command)
	require.Len(t, parts, 3, made.Command)
	secret, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), "bootstrap-token-"+parts[1], metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, corev1.SecretTypeBootstrapToken, secret.Type)
	assert.Equal(t, parts[2], string(secret.Data["token-secret"]))
	assert.Equal(t, "for one node", string(secret.Data["description"]))
	expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
	require.NoError(t, err)
	assert.WithinRange(t, expires, before.Add(time.Hour).Truncate(time.Second), time.Now().Add(time.Hour))
	assert.Equal(t, parts[1]+"."+parts[2], made.Token)
	assert.True(t, expires.Equal(*made.Expires), "%s is not %s", made.Expires, expires)
	assert.Equal(t, "api.example.com:443", made.Endpoint)
	require.Len(t, made.CACertHashes, 1)
	assert.Contains(t, made.Command, " "+made.CACertHashes[0])

	forever, err := MakeToken(t.Context(), client, 0, "")
	require.NoError(t, err)
	assert.Nil(t, forever.Expires)
	id, _, _ := strings.Cut(forever.Token, ".")
	secret, err = client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), "bootstrap-token-"+id, metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, secret.Data, "expiration")
}

func TestWrongConfigurationsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"the host and the port at which nodes reach the API are missing": func(c *Config) { c.Endpoint = "" },
		"the CA of the API is missing":                                   func(c *Config) { c.CA = nil },
		"port":                                                           func(c *Config) { c.Endpoint = "api.example.com:https" },
		"serviceSubnet":                                                  func(c *Config) { c.ServiceCIDR = "10.0.0.0" },
		`the KubeProxyConfiguration: error unmarshaling`:                 func(c *Config) { c.Addons.KubeProxyConfig = []byte("mod: ipvs\n") },
		`unknown field "maxPod"`: func(c *Config) {
			c.Kubelet = []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 1\n")
		},
	} {
		c := given(t)
		require.NoError(t, c.Validate())
		change(&c)
		assert.ErrorContains(t, c.Validate(), want)
	}
}

func TestWithoutAnAPIItSaysWhatItWaitsFor(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	err := Prepare(ctx, fake.NewClientset(), given(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "the API is not ready")
}
