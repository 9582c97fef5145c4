// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs follows the tutorials of the docs on this machine.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/released"
	"github.com/tripod-k8s/tripod/test/framework/tutorial"
)

// TestExtend follows docs/extend.md until the cluster. e2e/extend goes on there.
func TestExtend(t *testing.T) {
	env := framework.ForTest(t)
	blocks, err := tutorial.Read("../../../docs/extend.md", "Write it", "Give others access")
	require.NoError(t, err)
	tutorial.NewReader(t, environment(t, env)).Follow(blocks)
}

// environment is that of a user who has tripod in the PATH. The port of the API is a free one.
func environment(t *testing.T, env *framework.Environment) []string {
	t.Helper()
	port, err := framework.FreePort()
	require.NoError(t, err)
	programs := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = up ]; then shift; set -- up --port=%d \"$@\"; fi\nexec %q \"$@\"\n", port, env.Binary("tripod"))
	require.NoError(t, os.WriteFile(filepath.Join(programs, "tripod"), []byte(script), 0o700)) //nolint:gosec // it is a program
	var all []string
	for _, variable := range released.Environment(t) {
		if !strings.HasPrefix(variable, "KUBECONFIG=") {
			all = append(all, variable)
		}
	}
	return append(all, "PATH="+programs+":"+os.Getenv("PATH"), "TRIPOD_DATA_DIR="+filepath.Join(t.TempDir(), "data"))
}
