// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDirectoriesOfKilledProcessesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inUse, err := newTemporary()
	require.NoError(t, err)
	abandoned, err := os.MkdirTemp("", temporaryPrefix)
	require.NoError(t, err)
	fresh, err := os.MkdirTemp("", temporaryPrefix)
	require.NoError(t, err)
	old := time.Now().Add(-2 * abandonedAfter)
	for _, dir := range []string{inUse.path, abandoned} {
		require.NoError(t, os.Chtimes(dir, old, old))
	}

	other, err := newTemporary()
	require.NoError(t, err)
	other.remove()
	for dir, kept := range map[string]bool{inUse.path: true, abandoned: false, fresh: true} {
		if _, err := os.Stat(dir); (err == nil) != kept {
			t.Errorf("%s: kept is %v, want %v", dir, err == nil, kept)
		}
	}
	inUse.remove()
	if _, err := os.Stat(inUse.path); err == nil {
		t.Error("a directory outlived its process")
	}
}
