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

	"github.com/onsi/ginkgo/v2/types"

	"github.com/tripod-k8s/tripod/test/framework/e2esuite"
)

// resultsFile is the name of the file with what came of the specs.
const resultsFile = "results.json"

// kept is what came of the specs in one form with these versions.
type kept struct {
	Form    form   `json:"form"`
	Version string `json:"version"`
	Node    string `json:"node"`
	Runs    int    `json:"runs"`
	// Rolls are the restarts of replicas while the specs ran.
	Rolls   rolls            `json:"rolls,omitempty"`
	Results e2esuite.Results `json:"results"`

	dir string
	// err is why the last result could not be kept.
	err error
}

// openKept reads what came of earlier runs with the same versions.
func openKept(dir string, f form, version, node string) (*kept, error) {
	k := &kept{Form: f, Version: version, Node: node, Results: e2esuite.Results{}, Rolls: rolls{}, dir: filepath.Join(dir, string(f), version+"-node-"+node)}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the results: %w", err)
	}
	if _, err := os.Stat(k.path()); errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(version, "-dirty") {
		return k, nil // changes that are not committed have no version
	}
	return k, k.read()
}

// latestKept reads what came of the latest run of a form.
func latestKept(dir string, f form) (*kept, error) {
	paths, err := filepath.Glob(filepath.Join(dir, string(f), "*", resultsFile))
	if err != nil {
		return nil, err
	}
	var latest fs.FileInfo
	k := &kept{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read earlier results: %w", err)
		}
		if latest == nil || info.ModTime().After(latest.ModTime()) {
			latest, k.dir = info, filepath.Dir(path)
		}
	}
	if latest == nil {
		return nil, fmt.Errorf("nothing has run as %s: %s has no results of it", f, dir)
	}
	return k, k.read()
}

func (k *kept) read() error {
	data, err := os.ReadFile(k.path())
	if err == nil {
		err = json.Unmarshal(data, k)
	}
	if err != nil {
		return fmt.Errorf("read earlier results (remove the file to do without): %w", err)
	}
	return nil
}

func (k *kept) path() string { return filepath.Join(k.dir, resultsFile) }

func (k *kept) save() error {
	data, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = os.WriteFile(k.path()+".new", data, 0o644)
	}
	if err == nil {
		err = os.Rename(k.path()+".new", k.path())
	}
	if err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	return nil
}

// nextRun returns the number of a new run.
func (k *kept) nextRun() (int, error) {
	k.Runs++
	return k.Runs, k.save()
}

// ended keeps that one of the specs passed, in case the run is interrupted before its report.
func (k *kept) ended(e e2esuite.Ended, specs []string) {
	if !e.Passed() || !slices.Contains(specs, e.Name) {
		return
	}
	k.Results[e.Name] = e2esuite.Result{State: types.SpecStatePassed, Attempts: 1, Took: e.Took()}
	k.err = k.save()
}

// add keeps the results of a run. Attempts counts over runs: a spec that failed before has one more.
func (k *kept) add(found e2esuite.Results) error {
	for name, result := range found {
		if before, ran := k.Results[name]; ran && !before.Passed() {
			result.Attempts += before.Attempts
		}
		k.Results[name] = result
	}
	return k.save()
}

// missing returns the specs that have not passed.
func (k *kept) missing(wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(spec string) bool { return k.Results[spec].Passed() })
}

// of returns the results of some specs.
func (k *kept) of(specs []string) e2esuite.Results {
	some := e2esuite.Results{}
	for _, spec := range specs {
		if result, ran := k.Results[spec]; ran {
			some[spec] = result
		}
	}
	return some
}
