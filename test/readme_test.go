// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package test checks that README.md lists the packages below this folder.
package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

func TestTheReadmeListsEveryPackage(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(readme, -1) {
		listed = append(listed, string(row[1]))
	}
	packages := map[string]bool{}
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if folder := filepath.Dir(path); err == nil && filepath.Ext(path) == ".go" && folder != "." {
			packages[folder] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range packages {
		if !slices.Contains(listed, folder) {
			t.Errorf("%s has no row", folder)
		}
	}
	for _, folder := range listed {
		if !packages[folder] {
			t.Errorf("%s has a row and no package", folder)
		}
	}
}
