// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BuildAlone builds a program of one of the modules that strangers may require, or that is built on them, as they would. root is the folder of this
// repository, or of another version of it.
func BuildAlone(t testing.TB, root, module, program, output string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(root, "hack", "alone.sh"), module, "go", "build", "-ldflags=-s -w", "-o", output, program)
	printed, err := command.CombinedOutput()
	require.NoError(t, err, "%s: %s", command, printed)
}
