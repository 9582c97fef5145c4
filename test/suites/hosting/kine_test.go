// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hosting

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestUpWithKine has `tripod up` use kine for an external etcd, and commands for etcd refuse it.
func TestUpWithKine(t *testing.T) {
	t.Setenv("TEST_KINE", "sqlite")
	env := framework.ForTest(t)
	url, err := env.StartEtcd(t.Context(), env.Dir)
	require.NoError(t, err)
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{Args: []string{"--etcd-servers=" + url}})
	require.NoError(t, err)
	run := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), env.Binary("tripod"), args...)
		command.Env = append(os.Environ(), "HOME="+env.Dir)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	kubectl := func(args ...string) {
		t.Helper()
		out, err := run(append([]string{"kubectl", "--kubeconfig=" + tripod.Kubeconfig}, args...)...)
		require.NoError(t, err, out)
	}
	examples := filepath.Join("..", "..", "..", "docs", "examples")
	kubectl("apply", "-f", filepath.Join(examples, "boats.yaml"))
	kubectl("wait", "--for=condition=Established", "crd/boats.example.com")
	kubectl("apply", "-f", filepath.Join(examples, "dinghy.yaml"))
	kubectl("get", "boats.example.com", "dinghy")

	for _, args := range [][]string{
		{"etcd", "status"}, {"etcd", "defrag"}, {"etcd", "snapshot", filepath.Join(env.Dir, "snapshot.db")},
		{"etcd", "access", "--admin=admin"}, {"etcd", "downgrade", "--to=3.6"},
	} {
		out, err := run(append(args, "--endpoints="+url)...)
		require.Error(t, err, args)
		assert.Contains(t, out, "Error: "+url+" is not etcd, but a server such as kine", args)
	}
}
