// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDataDirIsForOneInstance(t *testing.T) {
	dataDir := DataDir(filepath.Join(t.TempDir(), "data"))
	lock, err := dataDir.open()
	require.NoError(t, err)
	_, err = dataDir.open()
	if err == nil {
		t.Fatal("opened twice")
	}
	if want := fmt.Sprintf("another tripod up (pid %d) uses %s", os.Getpid(), dataDir); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error is %q, want %q", err, want)
	}
	require.NoError(t, lock.Close())
	again, err := dataDir.open()
	require.NoError(t, err, "after the first has ended")
	require.NoError(t, again.Close())
}

func TestDataDirThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	if _, err := DataDir(file).open(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error is %v", err)
	}
}

func TestDataDirIsPrivate(t *testing.T) {
	dataDir := DataDir(filepath.Join(t.TempDir(), "data"))
	for _, dir := range []string{string(dataDir), dataDir.pki(), dataDir.logs()} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	lock, err := dataDir.open()
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	for _, dir := range []string{string(dataDir), dataDir.pki(), dataDir.logs()} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), dir)
	}
	require.NoError(t, os.Chmod(string(dataDir), 0o770))
	_, err = dataDir.open()
	assert.ErrorContains(t, err, "others may write to directory "+string(dataDir))
}

func TestNoLinkLeadsOutOfTheDataDir(t *testing.T) {
	for name, link := range map[string]func(DataDir) string{"lock": DataDir.lockFile, "logs": DataDir.logs, "pki": DataDir.pki} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			dataDir, outside := DataDir(filepath.Join(dir, "data")), filepath.Join(dir, "outside")
			require.NoError(t, os.Mkdir(string(dataDir), 0o700))
			if name == "lock" {
				require.NoError(t, os.WriteFile(outside, []byte("theirs"), 0o600))
			} else {
				require.NoError(t, os.Mkdir(outside, 0o755))
			}
			before, err := os.Stat(outside)
			require.NoError(t, err)
			require.NoError(t, os.Symlink(outside, link(dataDir)))
			_, err = dataDir.open()
			assert.ErrorContains(t, err, link(dataDir))
			assert.ErrorContains(t, err, "symbolic link")
			after, err := os.Stat(outside)
			require.NoError(t, err)
			assert.Equal(t, before, after)
		})
	}
}

func TestKubeconfigReplacesALink(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("theirs"), 0o600))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.Symlink(outside, path))
	a := newArguments(t, DefaultOptions())
	require.NoError(t, ensureCertificates(a.store, nil, nil, nil))
	require.NoError(t, writeKubeconfig(path, "https://127.0.0.1", a.store))
	data, err := os.ReadFile(outside)
	require.NoError(t, err)
	assert.Equal(t, "theirs", string(data))
}

func TestDefaultDataDir(t *testing.T) {
	t.Setenv("HOME", "/home/you")
	t.Setenv(DataDirVariable, "")
	assert.Equal(t, "/home/you/.tripod", DefaultDataDir(), "without the variable")
	t.Setenv(DataDirVariable, "/elsewhere")
	assert.Equal(t, "/elsewhere", DefaultDataDir(), "with the variable")
	t.Setenv(DataDirVariable, "")
	t.Setenv("HOME", "")
	assert.Equal(t, "/.tripod", DefaultDataDir(), "without a home")
}

func TestEarlierInstanceIsNamedUntilThereIsAnother(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv(DataDirVariable, "")
	t.Chdir(t.TempDir())
	assert.Empty(t, EarlierInstance(), "without any")
	require.NoError(t, os.MkdirAll(".tripod/pki", 0o700))
	assert.Contains(t, EarlierInstance(), "--data-dir .tripod")
	t.Setenv(DataDirVariable, "/elsewhere")
	assert.Empty(t, EarlierInstance(), "with the variable")
	t.Setenv(DataDirVariable, "")
	require.NoError(t, os.Mkdir(filepath.Join(home, ".tripod"), 0o700))
	assert.Empty(t, EarlierInstance(), "with a new one")
}
