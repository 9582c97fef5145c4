// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteReplacesAndLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"first", "second"} {
		require.NoError(t, Write(path, []byte(content)))
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("content is %q, err = %v, want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode is %o", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %d entries, err = %v", len(entries), err)
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "directory")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "sub"), 0o700))
	if err := Write(path, []byte("content")); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %d entries, err = %v", len(entries), err)
	}
}
