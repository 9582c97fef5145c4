// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/discovery/token"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/kubeconfig"
	"k8s.io/kubernetes/pkg/kubelet/certificate/bootstrap"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestANodeJoinsWithABootstrapToken does what kubeadm join and the kubelet do until the node is there, with their own code.
func TestANodeJoinsWithABootstrapToken(t *testing.T) {
	t.Parallel()
	const name = "joined"
	endpoint := strings.TrimPrefix(tripod.URL, "https://")
	run(t, "join", "prepare", "--endpoint="+endpoint)
	discovery := parse(t, run(t, "join", "token", "--ttl=1h"))
	assert.Equal(t, endpoint, discovery.BootstrapToken.APIServerEndpoint)

	info, err := token.RetrieveValidatedConfigInfo(nil, discovery, time.Minute)
	require.NoError(t, err, "everybody may read cluster-info, and the controller manager has signed it for the token")
	_, cluster, err := kubeconfig.GetClusterFromKubeConfig(info)
	require.NoError(t, err)
	dir := t.TempDir()
	byToken, own := filepath.Join(dir, "bootstrap.conf"), filepath.Join(dir, "kubelet.conf")
	require.NoError(t, kubeconfig.WriteToDisk(byToken, kubeconfig.CreateWithToken(
		cluster.Server, "kubernetes", "bootstrap", cluster.CertificateAuthorityData, discovery.BootstrapToken.Token)))

	before := clientOf(t, byToken)
	_, err = before.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "kubeadm-config", metav1.GetOptions{})
	require.NoError(t, err, "kubeadm reads it with the token")
	_, err = before.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "kubeadm looks whether the name is free: %v", err)
	_, err = before.CoreV1().Secrets(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "a token is for nothing else: %v", err)

	// The controller manager approves and signs the request.
	require.NoError(t, bootstrap.LoadClientCert(t.Context(), own, byToken, filepath.Join(dir, "pki"), name))
	after := clientOf(t, own)
	config, err := after.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "kubelet-config", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Contains(t, config.Data["kubelet"], "kind: KubeletConfiguration")
	_, err = after.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
	_, err = after.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}}, metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "a node is itself only: %v", err)
}

// run runs tripod for the administrator and returns its output.
func run(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), framework.ForTest(t).Binary("tripod"), append(args, "--kubeconfig="+tripod.Kubeconfig)...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err, args)
	return string(output)
}

// parse returns what kubeadm join reads from its flags.
func parse(t *testing.T, command string) *kubeadmapi.Discovery {
	t.Helper()
	words := strings.Fields(command)
	require.Len(t, words, 7, command)
	require.Equal(t, []string{"kubeadm", "join", "--token", "--discovery-token-ca-cert-hash"}, []string{words[0], words[1], words[3], words[5]})
	return &kubeadmapi.Discovery{BootstrapToken: &kubeadmapi.BootstrapTokenDiscovery{
		APIServerEndpoint: words[2], Token: words[4], CACertHashes: words[6:],
	}}
}

// clientOf returns a client for the user of a kubeconfig.
func clientOf(t *testing.T, path string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "join"))
	require.NoError(t, err)
	return client
}
