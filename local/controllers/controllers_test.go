// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/names"
)

func TestComponentsHaveRightsOfTheirOwn(t *testing.T) {
	store, err := certs.Open(filepath.Join(t.TempDir(), "pki"))
	require.NoError(t, err)
	authority, err := store.Authority("ca", "kubernetes")
	require.NoError(t, err)
	config := Config{Store: store, Authority: "ca", ServiceAccounts: "sa", Administrator: "admin", URL: "https://127.0.0.1:6443", Directory: filepath.Join(t.TempDir(), "controllers")}
	_, err = authority.Ensure("admin", certs.Leaf{CommonName: "kubernetes-admin", Client: true})
	require.NoError(t, err)
	require.NoError(t, config.Ensure(authority))
	for component, name := range map[string]string{names.Manager: "system:kube-controller-manager", names.Scheduler: "system:kube-scheduler", names.Kwok: "kubernetes-admin"} {
		client, err := clientcmd.BuildConfigFromFlags("", config.kubeconfig(component))
		require.NoError(t, err)
		assert.Equal(t, "https://127.0.0.1:6443", client.Host)
		data, err := os.ReadFile(client.CertFile)
		require.NoError(t, err)
		assert.Contains(t, certs.Describe(component, data)[0].Subject, name)
		info, err := os.Stat(config.kubeconfig(component))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

func TestProgramsThatAreMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Program()
	require.ErrorContains(t, err, "tripod-controllers must be beside")
	_, err = KwokProgram()
	require.ErrorContains(t, err, "--kwok-nodes needs kwok, beside tripod or in the PATH")
	program := filepath.Join(os.Getenv("PATH"), "kwok")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	path, err := KwokProgram()
	require.NoError(t, err)
	assert.Equal(t, program, path)
}

func TestNodesAreMadeOnce(t *testing.T) {
	client := fake.NewClientset()
	for _, count := range []int{2, 3, 1} {
		require.NoError(t, EnsureNodes(t.Context(), client, count))
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, node := range nodes.Items {
		names = append(names, node.Name)
		assert.Equal(t, "fake", node.Annotations[kwokNode])
	}
	assert.ElementsMatch(t, []string{"kwok-0", "kwok-1", "kwok-2"}, names)
	assert.True(t, apierrors.IsAlreadyExists(CreateNode(t.Context(), client, "kwok-0")))
}
