// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACopyTakesThePlaceOfAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.WriteFile(from, []byte("new"), 0o600))
	require.NoError(t, os.WriteFile(to, []byte("old"), 0o400))
	require.NoError(t, copyProgram(from, to))
	content, err := os.ReadFile(to)
	require.NoError(t, err)
	assert.Equal(t, "new", string(content))
	info, err := os.Stat(to)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), info.Mode().Perm())
}

func TestACopyThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, copyProgram(dir, filepath.Join(dir, "to")), "cannot copy "+dir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
	require.ErrorContains(t, Copy(filepath.Join(dir, "missing")), "missing is no directory")
}

func TestALinkTakesThePlaceOfAProgram(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tripod-core")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o400))
	require.NoError(t, link("tripod-services", path))
	target, err := os.Readlink(path)
	require.NoError(t, err)
	assert.Equal(t, "tripod-services", target)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	require.ErrorContains(t, link("tripod-services", filepath.Join(dir, "missing", "tripod-core")), "cannot link "+dir)
}
