// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

// kubeadm is where machines have the kubeadm of Tripod's version. That of the node image may be older.
const kubeadm = "/usr/local/bin/kubeadm-of-tripod"

// newMachine returns a node of kind on which kubeadm has not run yet.
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
	defer program.Close()
	_, err = machine.Exec(t.Context(), program, "install", "-m", "0755", "/dev/stdin", kubeadm)
	require.NoError(t, err)
	_, err = env.Program(machine, tunnelAgent)
	require.NoError(t, err)
	return machine
}
