// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubernetes-replaces keeps one replace line in go.mod for each module that the Kubernetes repository contains. Kubernetes
// requires these at v0.0.0 and replaces them by folders. Replace lines work only in the main module, so ours must be complete.
// The arguments are folders of other modules, which must have the same lines and the same version of Kubernetes.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const kubernetes = "k8s.io/kubernetes"

type module struct{ Path, Version string }

type replacement struct{ Old, New module }

type goMod struct {
	Require []module
	Replace []replacement
}

func main() {
	fix := flag.Bool("fix", false, "correct go.mod")
	flag.Parse()
	if err := run(append([]string{"."}, flag.Args()...), *fix); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes-replaces:", err)
		os.Exit(1)
	}
}

func run(folders []string, fix bool) error {
	var version string
	var theirs *goMod
	for _, folder := range folders {
		path := filepath.Join(folder, "go.mod")
		ours, err := readGoMod(path)
		if err != nil {
			return err
		}
		required, err := kubernetesVersion(ours)
		if err != nil {
			return fmt.Errorf("%s %w", path, err)
		}
		var edits []string
		if theirs == nil {
			version = required
			if theirs, err = kubernetesGoMod(); err != nil {
				return err
			}
		} else if required != version {
			edits = append(edits, "-require="+kubernetes+"@"+version)
		}
		edits = append(edits, replaceEdits(ours.Replace, theirs.Replace, "v0."+strings.TrimPrefix(version, "v1."))...)
		if len(edits) == 0 {
			continue
		}
		if !fix {
			return fmt.Errorf("%s needs %s; run `make fix-kubernetes`", path, strings.Join(edits, " "))
		}
		if _, err := output("go", slices.Concat([]string{"mod", "edit"}, edits, []string{path})...); err != nil {
			return err
		}
	}
	return nil
}

// kubernetesVersion returns the version of Kubernetes that a module requires.
func kubernetesVersion(m *goMod) (string, error) {
	i := slices.IndexFunc(m.Require, func(m module) bool { return m.Path == kubernetes })
	if i < 0 {
		return "", fmt.Errorf("does not require %s", kubernetes)
	}
	if version := m.Require[i].Version; strings.HasPrefix(version, "v1.") {
		return version, nil
	}
	return "", fmt.Errorf("requires %s %s, which is not v1", kubernetes, m.Require[i].Version)
}

// kubernetesGoMod returns the go.mod of the Kubernetes that Tripod requires. `go list -m` would not do: it names no folder for a module
// that no build has downloaded yet.
func kubernetesGoMod() (*goMod, error) {
	out, err := output("go", "mod", "download", "-json", kubernetes)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ GoMod string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	return readGoMod(downloaded.GoMod)
}

// replaceEdits returns the arguments of `go mod edit` that replace each module that Kubernetes replaces by the given version, and that
// drop our lines for modules that Kubernetes no longer has.
func replaceEdits(ours, theirs []replacement, version string) []string {
	current := map[string]module{}
	for _, r := range ours {
		current[r.Old.Path] = r.New
	}
	var result []string
	for _, r := range theirs {
		path := r.Old.Path
		if current[path] != (module{path, version}) {
			result = append(result, fmt.Sprintf("-replace=%s=%s@%s", path, path, version))
		}
		delete(current, path)
	}
	for _, r := range ours {
		if _, left := current[r.Old.Path]; left && strings.HasPrefix(r.Old.Path, "k8s.io/") {
			result = append(result, "-dropreplace="+r.Old.Path)
		}
	}
	return result
}

func readGoMod(path string) (*goMod, error) {
	out, err := output("go", "mod", "edit", "-json", path)
	if err != nil {
		return nil, err
	}
	result := &goMod{}
	return result, json.Unmarshal(out, result)
}

func output(name string, args ...string) ([]byte, error) {
	command := exec.Command(name, args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return out, nil
}
