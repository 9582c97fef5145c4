// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package supervision

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestAnInstanceInTheBackground goes through the life of one as a user does.
func TestAnInstanceInTheBackground(t *testing.T) {
	env, err := framework.New("detached")
	require.NoError(t, err)
	defer func() { assert.NoError(t, env.Close(t.Failed())) }()
	home, err := os.MkdirTemp("", "tripod-home-")
	require.NoError(t, err)
	defer os.RemoveAll(home) //nolint:errcheck // the operating system does it later
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := func(args ...string) (string, error) {
		command := exec.CommandContext(ctx, env.Binary("tripod"), args...)
		command.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=", "TRIPOD_DATA_DIR=")
		// An interrupt in a terminal goes to the whole process group.
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var errors bytes.Buffer
		command.Stderr = &errors
		out, err := command.Output()
		if command.Process != nil {
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGINT) // only those that the command has left behind
		}
		return string(out) + errors.String(), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		require.NoError(t, err, "%v: %s", args, out)
		return out
	}
	defer func() { _, _ = run("delete", "--name", "a") }()

	out := must("up", "-d", "--name", "a", "--port", "0", "--merge-kubeconfig")
	assert.Contains(t, out, "Tripod is ready")
	assert.Contains(t, out, "`tripod down --name a` stops it")
	var listed []struct {
		Name             string
		Running          bool
		Ready, Processes int
	}
	require.NoError(t, json.Unmarshal([]byte(must("list", "-o", "json")), &listed))
	require.Len(t, listed, 1)
	assert.Equal(t, "a", listed[0].Name)
	assert.True(t, listed[0].Running)
	assert.Equal(t, 4, listed[0].Processes)
	assert.Equal(t, 4, listed[0].Ready)
	users := filepath.Join(home, ".kube", "config")
	assert.Contains(t, must("kubectl", "--kubeconfig", users, "--context", "tripod-a", "get", "namespaces"), "kube-system")
	assert.Contains(t, must("logs", "--name", "a", "up"), "Tripod is ready")
	assert.ElementsMatch(t, []string{"aggregator-0", "core-0", "etcd-0", "extensions-0"}, strings.Fields(must("status", "--name", "a", "-o", "name")))

	out, err = run("up", "-d", "--name", "a", "--port", "0")
	require.Error(t, err)
	assert.Contains(t, out, "another tripod up")
	assert.Contains(t, must("down", "--name", "a"), "Stopped after")
	assert.Contains(t, must("down", "--name", "a"), "No instance runs")
	must("delete", "--name", "a")
	assert.Equal(t, "[]\n", must("list", "-o", "json"))
	data, err := os.ReadFile(users)
	require.NoError(t, err)
	assert.NotContains(t, string(data), "tripod-a")
}
