// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const apiServer = "kube-apiserver"

// folders are the folders of Kubernetes' sources that the scripts need.
var folders = []string{"hack", "test/cmd", "test/fixtures", "test/e2e/testing-manifests", "third_party"}

// binDir is where the scripts expect the programs that `make` builds.
const binDir = "_output/bin"

// makefile builds nothing, because everything is in binDir. It leaves out the tests of kubeadm.
const makefile = "all test:\n\t@:\n.PHONY: all test\n"

// onlyVariable has the pattern that the name of a test must match.
const onlyVariable = "TRIPOD_ONLY"

// filter is appended to the script that declares record_command, which runs each test.
const filter = `
eval "$(declare -f record_command | sed '1s/record_command/record_any_command/')"
record_command() {
  if [[ "$1" =~ ${` + onlyVariable + `} ]]; then record_any_command "$@"; fi
}
`

// standIn replaces kube-apiserver.
const standIn = "#!/bin/sh\nexec '%s' kube-apiserver \"$@\"\n"

// makeTree creates a folder that the scripts take for a checkout of Kubernetes in which everything is built.
func makeTree(ctx context.Context, root, side string) error {
	sources, err := kubernetesDir(ctx)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := copyTree(filepath.Join(sources, folder), filepath.Join(root, folder)); err != nil {
			return fmt.Errorf("copy the scripts: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "Makefile"), []byte(makefile), 0o600); err != nil {
		return fmt.Errorf("write a Makefile: %w", err)
	}
	if err := appendTo(filepath.Join(root, "test/cmd/legacy-script.sh"), filter); err != nil {
		return fmt.Errorf("choose tests: %w", err)
	}
	return linkPrograms(filepath.Join(root, binDir), side)
}

// linkPrograms puts the programs into dir that the scripts would build.
func linkPrograms(dir, side string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a place for the programs: %w", err)
	}
	programs := []string{"kubectl", "kubectl-convert", "kube-controller-manager"}
	if side == stockSide {
		programs = append(programs, apiServer)
	} else {
		tripod, err := filepath.Abs(tripodBin)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, apiServer), fmt.Appendf(nil, standIn, tripod), 0o700); err != nil {
			return fmt.Errorf("put Tripod in the place of kube-apiserver: %w", err)
		}
	}
	for _, name := range programs {
		path, err := filepath.Abs(filepath.Join(assetsDir, name))
		if err == nil {
			_, err = os.Stat(path)
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			return fmt.Errorf("take %s (make suite-assets?): %w", name, err)
		}
	}
	return nil
}

// copyTree copies a folder of the module cache, in which files are read-only and not executable.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o700)
	})
}

func appendTo(path, text string) (err error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	_, err = io.WriteString(file, text)
	return err
}
