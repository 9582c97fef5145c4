// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResultsAreKeptByFormAndVersions(t *testing.T) {
	dir := t.TempDir()
	open := func(form, version, node string) *File[bool] {
		t.Helper()
		f, err := Open[bool](dir, form, version, node)
		require.NoError(t, err)
		return f
	}
	want := map[string]bool{"a": true, "b": false}
	f := open("stock", "v1", "n1")
	f.Results = want
	require.NoError(t, f.Save())
	number, err := f.NextRun()
	require.NoError(t, err)
	assert.Equal(t, 1, number)

	again := open("stock", "v1", "n1")
	assert.Equal(t, want, again.Results)
	number, err = again.NextRun()
	require.NoError(t, err)
	assert.Equal(t, 2, number)
	for name, other := range map[string]*File[bool]{
		"another form": open("tripod", "v1", "n1"), "another version": open("stock", "v2", "n1"),
		"another node": open("stock", "v1", "n2"), "no node": open("stock", "v1", ""),
	} {
		assert.Empty(t, other.Results, name)
	}
}

func TestUncommittedChangesHaveNoVersion(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		f, err := Open[int](dir, "tripod", "v1-dirty", "")
		require.NoError(t, err)
		assert.Empty(t, f.Results)
		f.Results["a"] = 1
		require.NoError(t, f.Save())
	}
}

func TestLatestResultsAreFound(t *testing.T) {
	dir := t.TempDir()
	_, err := Latest[int](dir, "stock")
	require.ErrorContains(t, err, "nothing has run as stock")
	f, err := Open[int](dir, "stock", "v1", "")
	require.NoError(t, err)
	f.Results["a"], f.Rolls["core"] = 1, 2
	require.NoError(t, f.Save())
	latest, err := Latest[int](dir, "stock")
	require.NoError(t, err)
	assert.Equal(t, f, latest)
}

func TestABrokenFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	f, err := Open[int](dir, "stock", "v1", "")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, resultsFile), []byte("{"), 0o600))
	_, err = Open[int](dir, "stock", "v1", "")
	assert.ErrorContains(t, err, "remove the file to do without")
}
