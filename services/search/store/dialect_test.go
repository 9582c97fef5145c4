// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFilesOfSQLiteArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "search.db")
	s, err := Open("sqlite:" + path)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Migrate(t.Context()))
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	assert.Greater(t, len(files), 1)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
}

func TestPlacesThatAreNoDatabase(t *testing.T) {
	for location, wrong := range map[string]string{
		"":                          "the database must be sqlite:FILE",
		"sqlite:":                   "sqlite: needs a file",
		"sqlite:/nowhere/search.db": "no such file or directory",
		"redis://host":              "the database must be sqlite:FILE",
	} {
		_, err := Open(location)
		assert.ErrorContains(t, err, wrong, location)
	}
}
