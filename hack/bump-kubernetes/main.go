// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bump-kubernetes makes Tripod require another version of Kubernetes: it changes go.mod of Tripod and of tools/e2e, generates what
// follows from the version, and says at the end what a person must look at. `make bump-kubernetes VERSION=v1.X.Y` runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const kubernetes = "k8s.io/kubernetes"

// modules are the folders of the modules that require Kubernetes, or only its staging modules.
var modules = []string{".", "tools/e2e", "tools/codegen", "base", "apiservice", "examples/wardle", "lab"}

func main() {
	version := flag.String("version", "", "version of Kubernetes, such as v1.36.3")
	newest := flag.String("newest", "", "print the newest version of a kind and do nothing else: "+strings.Join(kinds, ", "))
	flag.Parse()
	if err := runOrPrint(*version, *newest); err != nil {
		fmt.Fprintln(os.Stderr, "bump-kubernetes:", err)
		os.Exit(1)
	}
}

// runOrPrint does what the flags say.
func runOrPrint(version, newest string) error {
	if newest == "" {
		return run(version, os.Stdout)
	}
	found, err := newestOf(newest)
	if err == nil {
		fmt.Println(found)
	}
	return err
}

var release = regexp.MustCompile(`^v1(\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?)$`)

// staging returns the version of the modules that Kubernetes publishes from its own repository.
func staging(version string) string { return release.ReplaceAllString(version, "v0$1") }

func run(version string, out io.Writer) error {
	if !release.MatchString(version) {
		return fmt.Errorf("%q is no version of Kubernetes: say VERSION=v1.X.Y, or v1.X.0-beta.N", version)
	}
	if changed, err := changedFiles(); err != nil {
		return err
	} else if len(changed) > 0 {
		return fmt.Errorf("commit or stash your changes first, "+
			"so that the changes of the version can be seen: %s", strings.Join(changed, ", "))
	}
	before, err := look()
	if err != nil {
		return err
	}
	if err := require(before.version, version); err != nil {
		return err
	}
	// What does not compile yet cannot generate anything. The report says why it may not compile.
	errOfMake := do("make", "--no-print-directory", "fix-tidy", "fix-generated")
	after, err := look()
	if err != nil {
		return errors.Join(err, errOfMake)
	}
	if err := report(out, before, after); err != nil {
		return errors.Join(err, errOfMake)
	}
	if errOfMake != nil {
		return fmt.Errorf("go.mod requires %s, but not all could be generated; once that is mended, `make fix-generated` does the rest: %w",
			version, errOfMake)
	}
	return nil
}

// require makes the modules require a version of Kubernetes, and the versions of Kubernetes' modules and of etcd that belong to it.
func require(old, version string) error {
	if err := do("go", "get", kubernetes+"@"+version); err != nil {
		return err
	}
	dir, err := dirOfKubernetes()
	if err != nil {
		return err
	}
	theirs, err := readRequirements(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	if err := theirs.takeNewestEtcd(); err != nil {
		return err
	}
	for _, folder := range modules {
		path := filepath.Join(folder, "go.mod")
		ours, err := readRequirements(path)
		if err != nil {
			return err
		}
		edits := requireEdits(ours, theirs, old, version)
		if len(edits) == 0 {
			continue
		}
		if err := do("go", append(append([]string{"mod", "edit"}, edits...), path)...); err != nil {
			return err
		}
	}
	return do("make", "--no-print-directory", "fix-kubernetes")
}

// changedFiles returns the files that git would commit.
func changedFiles() ([]string, error) {
	text, err := output("git", "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return nil, err
	}
	var files []string
	for line := range strings.Lines(text) {
		files = append(files, strings.TrimSpace(line[3:]))
	}
	return files, nil
}

// do runs a command and shows its output.
func do(name string, args ...string) error {
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	fmt.Println(strings.Join(command.Args, " "))
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

// output returns the output of a command.
func output(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w", command, errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return string(out), nil
}
