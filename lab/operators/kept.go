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
	"slices"
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

var errNothingRan = errors.New("nothing has run")

// latest reads what was found last on stock and on Tripod, in parts if divided. What the latest version has not run comes from earlier ones.
func latest(dir string, divided bool) (both [2]*kept, err error) {
	for i, side := range []string{stockName, nameOfTripod(divided)} {
		versions, err := keptVersions(dir, side)
		if err != nil {
			return both, err
		}
		if len(versions) == 0 {
			return both, fmt.Errorf("%w on %s: %s has no results of it", errNothingRan, side, dir)
		}
		both[i] = versions[0]
		for _, earlier := range versions[1:] {
			both[i].fill(earlier)
		}
	}
	return both, nil
}

// keptVersions reads what is kept of a side, the latest first.
func keptVersions(dir, side string) ([]*kept, error) {
	paths, err := filepath.Glob(filepath.Join(dir, side+"-*.json"))
	if err != nil {
		return nil, err
	}
	var versions []*kept
	written := map[*kept]time.Time{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read earlier results: %w", err)
		}
		k := newKept(side, "", path)
		if err := k.read(); err != nil {
			return nil, err
		}
		written[k] = info.ModTime()
		versions = append(versions, k)
	}
	slices.SortFunc(versions, func(a, b *kept) int { return written[b].Compare(written[a]) })
	return versions, nil
}

// fill takes over results of packages that have none.
func (k *kept) fill(earlier *kept) {
	for key, packages := range earlier.Projects {
		if k.Projects[key] == nil {
			k.Projects[key] = map[string]*results{}
		}
		for name, found := range packages {
			if k.Projects[key][name] == nil {
				k.Projects[key][name] = found
			}
		}
	}
}

func (k *kept) read() error {
	data, err := os.ReadFile(k.path)
	if err == nil {
		err = json.Unmarshal(data, k)
	}
	if err != nil {
		return fmt.Errorf("read earlier results (remove the file to do without): %w", err)
	}
	for _, packages := range k.Projects {
		for _, found := range packages {
			found.version = k.Version
		}
	}
	return nil
}

// get returns the results of a package, or nil if it has not run.
func (k *kept) get(p project, name string) *results { return k.Projects[p.key()][name] }

func (k *kept) put(p project, name string, found *results) error {
	if k.Projects[p.key()] == nil {
		k.Projects[p.key()] = map[string]*results{}
	}
	found.version = k.Version
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
