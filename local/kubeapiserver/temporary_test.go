// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"os"
	"testing"
	"time"
)

func TestDirectoriesOfKilledProcessesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inUse, remove, err := temporaryDir()
	if err != nil {
		t.Fatal(err)
	}
	abandoned, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * abandonedAfter)
	for _, dir := range []string{inUse, abandoned} {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}

	_, removeOther, err := temporaryDir()
	if err != nil {
		t.Fatal(err)
	}
	removeOther()
	for dir, kept := range map[string]bool{inUse: true, abandoned: false, fresh: true} {
		if _, err := os.Stat(dir); (err == nil) != kept {
			t.Errorf("%s: kept is %v, want %v", dir, err == nil, kept)
		}
	}
	remove()
	if _, err := os.Stat(inUse); err == nil {
		t.Error("a directory outlived its process")
	}
}
