// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package test checks that the README.md of a folder lists the packages below it.
package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheReadmeListsEveryPackage(t *testing.T) {
	for _, folder := range []string{".", "../lab"} {
		t.Run(filepath.Base(folder), func(t *testing.T) { testReadmeListsEveryPackage(t, folder) })
	}
}

func testReadmeListsEveryPackage(t *testing.T, root string) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(readme, -1) {
		listed = append(listed, string(row[1]))
	}
	packages := map[string]bool{}
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		if folder := filepath.Dir(path); err == nil && filepath.Ext(path) == ".go" && folder != "." {
			packages[folder] = true
		}
		return err
	})
	require.NoError(t, err)
	for folder := range packages {
		assert.Contains(t, listed, folder, "%s has no row", folder)
	}
	for _, folder := range listed {
		assert.True(t, packages[folder], "%s has a row and no package", folder)
	}
}
