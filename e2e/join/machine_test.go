// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

const (
	// kubeadm is where machines have the kubeadm of Tripod's version. That of the node image may be older.
	kubeadm = "/usr/local/bin/kubeadm-of-tripod"
	// kindNetwork is kind's network plugin, where the node image has one.
	kindNetwork = "/kind/manifests/default-cni.yaml"
)

// newMachine returns a node of kind on which nobody has run kubeadm yet.
func newMachine(t *testing.T) *kindcluster.Cluster {
	t.Helper()
	path, err := asset("kubeadm")
	require.NoError(t, err)
	name := environment.ClusterName("-joining")
	machine, err := kindcluster.Up(t.Context(), kindcluster.Options{
		Name: name, Image: os.Getenv("KIND_NODE_IMAGE"), ConfigFile: os.Getenv("KIND_CONFIG"), Dir: t.TempDir(), Bare: true,
		Ports: map[int32]int32{environment.NodePort: kindcluster.AnyPort},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if os.Getenv("E2E_KEEP") == "" {
			assert.NoError(t, kindcluster.Down(name))
		}
	})
	program, err := os.Open(path)
	require.NoError(t, err)
	defer program.Close() //nolint:errcheck // only read
	_, err = machine.Exec(t.Context(), program, "install", "-m", "0755", "/dev/stdin", kubeadm)
	require.NoError(t, err)
	_, err = env.Program(machine, tunnelAgent)
	require.NoError(t, err)
	return machine
}

// installNetwork installs kind's network for pods, unless the node image brings a configuration of its own.
func installNetwork(t *testing.T, node *kindcluster.Cluster) {
	t.Helper()
	configured, err := node.Exec(t.Context(), nil, "ls", "-A", "/etc/cni/net.d")
	require.NoError(t, err)
	if strings.TrimSpace(configured) != "" {
		return
	}
	manifest, err := node.Exec(t.Context(), nil, "cat", kindNetwork)
	require.NoError(t, err)
	parsed, err := template.New("network").Parse(manifest)
	require.NoError(t, err)
	var filled bytes.Buffer
	require.NoError(t, parsed.Execute(&filled, struct{ PodSubnet string }{podCIDR}))
	kubectl(t, filled.String(), "apply", "-f", "-")
}

// addons is the configuration of kubeadm for kube-proxy and CoreDNS. In the directory of a node's certificates, kubeadm init would look for those of an API
// server. In a container, kube-proxy cannot set limits of the kernel.
const addons = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
certificatesDir: /root/no-certificates
kubernetesVersion: %s
controlPlaneEndpoint: %s
networking: {podSubnet: %s, serviceSubnet: 10.0.0.0/16}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0}
`

// installAddons installs kube-proxy and CoreDNS by the kubeadm of the node image, which has the images of that version.
func installAddons(t *testing.T, node *kindcluster.Cluster) {
	t.Helper()
	version, err := node.Exec(t.Context(), nil, "cat", "/kind/version")
	require.NoError(t, err)
	admin, err := clientcmd.LoadFromFile(tripod.Kubeconfig)
	require.NoError(t, err)
	for _, cluster := range admin.Clusters {
		cluster.Server = "https://" + endpoint
	}
	kubeconfig, err := clientcmd.Write(*admin)
	require.NoError(t, err)
	const adminFile, configFile = "/root/tripod.kubeconfig", "/root/addons.yaml"
	for file, content := range map[string][]byte{
		adminFile:  kubeconfig,
		configFile: fmt.Appendf(nil, addons, strings.TrimSpace(version), endpoint, podCIDR),
	} {
		_, err := node.Exec(t.Context(), bytes.NewReader(content), "install", "-m", "0600", "/dev/stdin", file)
		require.NoError(t, err)
	}
	_, err = node.Exec(t.Context(), nil, "kubeadm", "init", "phase", "addon", "all", "--kubeconfig="+adminFile, "--config="+configFile)
	require.NoError(t, err)
}
