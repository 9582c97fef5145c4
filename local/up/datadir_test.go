// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDataDirIsForOneInstance(t *testing.T) {
	dataDir := DataDir(filepath.Join(t.TempDir(), "data"))
	lock, err := dataDir.open()
	if err != nil {
		t.Fatal(err)
	}
	_, err = dataDir.open()
	if err == nil {
		t.Fatal("opened twice")
	}
	if want := fmt.Sprintf("another tripod up (pid %d) uses %s", os.Getpid(), dataDir); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error is %q, want %q", err, want)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := dataDir.open()
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDataDirThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := DataDir(file).open(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error is %v", err)
	}
}

func TestDefaultDataDir(t *testing.T) {
	t.Setenv(DataDirVariable, "")
	if dir := DefaultDataDir(); dir != ".tripod" {
		t.Errorf("without the variable it is %q", dir)
	}
	t.Setenv(DataDirVariable, "/elsewhere")
	if dir := DefaultDataDir(); dir != "/elsewhere" {
		t.Errorf("with the variable it is %q", dir)
	}
}
