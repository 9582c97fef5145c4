// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/tripod-k8s/tripod/local/process"
)

var versionNumber = regexp.MustCompile(`\bv[0-9]\S*`)

// versionTimeout limits how long a binary may take to print its version.
const versionTimeout = 10 * time.Second

// Binary returns the path of a binary of Tripod, which is beside the running one.
func Binary(name string) (string, error) {
	self, err := Self()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := exec.LookPath(path); err != nil {
		if target, notLink := os.Readlink(path); notLink == nil {
			name = fmt.Sprintf("%s, to which %s is a link,", target, name)
		}
		return "", fmt.Errorf("%s must be beside %s: %w", name, self, err)
	}
	return path, nil
}

// Self returns the path of the running binary, with symbolic links resolved.
func Self() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find the running binary: %w", err)
	}
	self, err = filepath.EvalSymlinks(self)
	if err != nil {
		return "", fmt.Errorf("cannot find the running binary: %w", err)
	}
	return self, nil
}

// BinaryVersion returns a function that asks a binary for its version. Every binary of Kubernetes answers "Kubernetes v1.2.3" to
// --version, and kwok "kwok version v1.2.3 ...".
func BinaryVersion(path string, args ...string) func(context.Context) string {
	return func(ctx context.Context) string {
		ctx, cancel := context.WithTimeout(ctx, versionTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, append(args, "--version")...)
		cmd.Env = process.Environment()
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return versionNumber.FindString(string(out))
	}
}
