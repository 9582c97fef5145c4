// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// kept is what is known about one side at a version.
type kept struct {
	Side    string `json:"side"`
	Version string `json:"version"`
	// Start and Stop are medians of how long envtest takes to start and stop an API server and its etcd.
	Start time.Duration `json:"start"`
	Stop  time.Duration `json:"stop"`
	// Projects has results by the keys of projects and the names of packages.
	Projects map[string]map[string]*results `json:"projects"`

	path string
}

func newKept(side, version, path string) *kept {
	return &kept{Side: side, Version: version, Projects: map[string]map[string]*results{}, path: path}
}

// openKept reads what earlier runs with this version have found. Changes that are not committed have no version.
func openKept(dir, side, version string) (*kept, error) {
	k := newKept(side, version, filepath.Join(dir, side+"-"+version+".json"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the results: %w", err)
	}
	if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(version, "-dirty") {
		return k, nil
	}
	return k, k.read()
}

// latest reads what was found last on each side.
func latest(dir string) (both [2]*kept, err error) {
	for i, side := range []string{"stock", "Tripod"} {
		paths, err := filepath.Glob(filepath.Join(dir, side+"-*.json"))
		if err != nil {
			return both, err
		}
		var newest time.Time
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				return both, fmt.Errorf("read earlier results: %w", err)
			}
			if info.ModTime().After(newest) {
				newest, both[i] = info.ModTime(), newKept(side, "", path)
			}
		}
		if both[i] == nil {
			return both, fmt.Errorf("nothing has run on %s: %s has no results of it", side, dir)
		}
		if err := both[i].read(); err != nil {
			return both, err
		}
	}
	return both, nil
}

func (k *kept) read() error {
	data, err := os.ReadFile(k.path)
	if err == nil {
		err = json.Unmarshal(data, k)
	}
	if err != nil {
		return fmt.Errorf("read earlier results (remove the file to do without): %w", err)
	}
	return nil
}

// get returns the results of a package, or nil if it has not run.
func (k *kept) get(p project, name string) *results { return k.Projects[p.key()][name] }

func (k *kept) put(p project, name string, found *results) error {
	if k.Projects[p.key()] == nil {
		k.Projects[p.key()] = map[string]*results{}
	}
	k.Projects[p.key()][name] = found
	return k.save()
}

func (k *kept) save() error {
	data, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = os.WriteFile(k.path+".new", data, 0o644)
	}
	if err == nil {
		err = os.Rename(k.path+".new", k.path)
	}
	if err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	return nil
}
