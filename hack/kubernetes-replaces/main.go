// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubernetes-replaces keeps one replace line in go.mod for each module that is
// developed in the Kubernetes repository. Kubernetes requires these at v0.0.0 and replaces
// them by folders; a replace line works only in the main module, so ours must be complete.
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
	if err := run(*fix); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes-replaces:", err)
		os.Exit(1)
	}
}

func run(fix bool) error {
	ours, err := readGoMod("go.mod")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(ours.Require, func(m module) bool { return m.Path == kubernetes })
	if i < 0 {
		return fmt.Errorf("go.mod does not require %s", kubernetes)
	}
	stagingVersion, found := strings.CutPrefix(ours.Require[i].Version, "v1.")
	if !found {
		return fmt.Errorf("%s %s is not v1", kubernetes, ours.Require[i].Version)
	}
	dir, err := output("go", "list", "-m", "-f", "{{.Dir}}", kubernetes)
	if err != nil {
		return err
	}
	theirs, err := readGoMod(filepath.Join(strings.TrimSpace(string(dir)), "go.mod"))
	if err != nil {
		return err
	}
	edits := edits(ours.Replace, theirs.Replace, "v0."+stagingVersion)
	if len(edits) == 0 {
		return nil
	}
	if !fix {
		return fmt.Errorf("go.mod needs %s; run `make fix-kubernetes`", strings.Join(edits, " "))
	}
	_, err = output("go", append([]string{"mod", "edit"}, edits...)...)
	return err
}

// edits returns the arguments of `go mod edit` that make a replace line to version for each
// module that Kubernetes replaces, and drop those lines of ours it no longer has.
func edits(ours, theirs []replacement, version string) []string {
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
