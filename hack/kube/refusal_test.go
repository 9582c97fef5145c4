// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMakeRefusesAnotherVersionInOneLine(t *testing.T) {
	root := filepath.Join("..", "..")
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "build", "KUBE=1.29")
	cmd.Dir = root
	// These tests may run below make, whose variables would count here.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") })
	output, err := cmd.CombinedOutput()
	require.Error(t, err)
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	require.Len(t, lines, 1, "%s", output)
	assert.Contains(t, lines[0], "KUBE=1.29: this version of Tripod builds with Kubernetes 1.")
	assert.NoDirExists(t, filepath.Join(root, "bin", "kube-1.29"))
}
