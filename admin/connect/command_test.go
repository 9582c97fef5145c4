// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/base/certs/kubeconfig"
)

func TestACommandHasTheKubeconfigAndGivesItsExitCode(t *testing.T) {
	run := func(script string) error {
		return RunCommand(t.Context(), "/a/kubeconfig", []string{"sh", "-c", script}, nil)
	}
	assert.NoError(t, run(`test "$KUBECONFIG" = /a/kubeconfig`))
	assert.Equal(t, ExitCode(7), run("exit 7"))
	assert.Equal(t, ExitCode(137), run("kill -KILL $$"))
	assert.ErrorIs(t, RunCommand(t.Context(), "", []string{filepath.Join(t.TempDir(), "none")}, nil), os.ErrNotExist)
}

// A terminal sends SIGINT to the command itself.
func TestACommandGetsTheSignalsThatATerminalDoesNotSend(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "ready")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	signals, ended := make(chan os.Signal), make(chan error, 1)
	go func() {
		const script = `trap "exit 3" TERM; trap "exit 4" INT; echo ready > "$0"; while :; do sleep 0.05; done`
		ended <- RunCommand(t.Context(), "", []string{"sh", "-c", script, fifo}, signals)
	}()
	_, err := os.ReadFile(fifo) // returns when the command has set its traps
	require.NoError(t, err)
	signals <- syscall.SIGINT
	signals <- syscall.SIGTERM
	assert.Equal(t, ExitCode(3), <-ended)
}

func TestSignalsAreHeldWhileThereIsAKubeconfig(t *testing.T) {
	signals, letGo := HoldSignals()
	defer letGo()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	assert.Equal(t, syscall.SIGTERM, <-signals)
}

func TestAKubeconfigIsRemovedWithItsDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path, remove, err := WriteKubeconfig(&kubeconfig.Entry{
		Name: "tripod", Cluster: &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}, User: &clientcmdapi.AuthInfo{Token: "a"},
	})
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	assert.Equal(t, "https://127.0.0.1:1", config.Host)
	assert.Equal(t, "a", config.BearerToken)
	require.NoError(t, remove())
	assert.NoDirExists(t, filepath.Dir(path))
}
