// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kept keeps the results of long suites in files, by version of what ran. So an interrupted suite goes on where it was.
package kept

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// resultsFile is the name of each file.
const resultsFile = "results.json"

// File has the results of the cases of a suite. R is the result of a case.
type File[R any] struct {
	// Form is what ran the cases, such as stock, in this version. Node is the version of the nodes, if it matters.
	Form    string `json:"form"`
	Version string `json:"version"`
	Node    string `json:"node,omitempty"`
	// Runs counts the runs.
	Runs int `json:"runs"`
	// Rolls counts restarts of replicas while cases ran.
	Rolls   map[string]int `json:"rolls,omitempty"`
	Results map[string]R   `json:"results"`

	// Dir is the directory of the file. Logs of the runs may be there too.
	Dir string `json:"-"`
}

// Open reads the results of earlier runs of a form with the same versions.
func Open[R any](dir, form, version, node string) (*File[R], error) {
	name := version
	if node != "" {
		name += "-node-" + node
	}
	f := &File[R]{Form: form, Version: version, Node: node, Results: map[string]R{}, Rolls: map[string]int{}, Dir: filepath.Join(dir, form, name)}
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the results: %w", err)
	}
	if _, err := os.Stat(f.path()); errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(version, "-dirty") {
		return f, nil // changes that are not committed have no version
	}
	return f, f.read()
}

// Latest reads the results of the latest run of a form.
func Latest[R any](dir, form string) (*File[R], error) {
	paths, err := filepath.Glob(filepath.Join(dir, form, "*", resultsFile))
	if err != nil {
		return nil, err
	}
	var latest fs.FileInfo
	f := &File[R]{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read earlier results: %w", err)
		}
		if latest == nil || info.ModTime().After(latest.ModTime()) {
			latest, f.Dir = info, filepath.Dir(path)
		}
	}
	if latest == nil {
		return nil, fmt.Errorf("nothing has run as %s: %s has no results of it", form, dir)
	}
	return f, f.read()
}

func (f *File[R]) read() error {
	data, err := os.ReadFile(f.path())
	if err == nil {
		err = json.Unmarshal(data, f)
	}
	if err != nil {
		return fmt.Errorf("read earlier results (remove the file to do without): %w", err)
	}
	return nil
}

func (f *File[R]) path() string { return filepath.Join(f.Dir, resultsFile) }

// Save writes the file. A crash leaves the old file or the new one.
func (f *File[R]) Save() error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = os.WriteFile(f.path()+".new", data, 0o644)
	}
	if err == nil {
		err = os.Rename(f.path()+".new", f.path())
	}
	if err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	return nil
}

// NextRun returns the number of a new run.
func (f *File[R]) NextRun() (int, error) {
	f.Runs++
	return f.Runs, f.Save()
}
