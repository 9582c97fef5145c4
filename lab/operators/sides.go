// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The indexes of the sides that are compared.
const (
	stock = iota
	tripod
)

const (
	stockAPIServer = "bin/test-assets/kube-apiserver"
	tripodBinary   = "bin/tripod"
	etcdBinary     = "bin/test-assets/etcd"
)

// kubectlScript is kubectl. Tests may use it, but it is not what is compared.
const kubectlScript = "#!/bin/sh\nexec '%s' kubectl \"$@\"\n"

// partitionsVariable has the partitions of the project, separated by spaces, for dividedScript.
const partitionsVariable = "OPERATORS_PARTITIONS"

// dividedScript is kube-apiserver in parts. envtest knows no flag for them.
const dividedScript = `#!/bin/sh
set -f
for partition in $` + partitionsVariable + `; do set -- "$@" "--extensions-partition=$partition"; done
exec '%s' kube-apiserver "$@"
`

// The names of the sides.
const (
	stockName   = "stock"
	tripodName  = "Tripod"
	dividedName = "partitions"
)

// side is an API server, as the tests find it.
type side struct {
	name, version string
	// assets is a folder with kube-apiserver, etcd and kubectl. No other process runs anything in it.
	assets string
}

// openSides makes the folders in which the tests find their programs. Tripod is in parts if divided. Call end when no test runs any more.
func openSides(ctx context.Context, divided bool) (sides [2]*side, end func() error, err error) {
	dir, err := os.MkdirTemp("", "operators-")
	if err != nil {
		return sides, nil, fmt.Errorf("make a place for the programs: %w", err)
	}
	end = func() error { return os.RemoveAll(dir) }
	for i, s := range []struct{ name, apiserver, versionCommand string }{
		{stockName, stockAPIServer, "--version"},
		{nameOfTripod(divided), tripodBinary, "version"},
	} {
		sides[i] = &side{name: s.name, assets: filepath.Join(dir, strings.ToLower(s.name))}
		err := sides[i].link(s.apiserver)
		if err == nil && divided && i == tripod {
			err = sides[i].divide()
		}
		if err == nil {
			sides[i].version, err = versionOf(ctx, s.apiserver, s.versionCommand)
		}
		if err != nil {
			return sides, nil, errors.Join(err, end())
		}
	}
	return sides, end, nil
}

// nameOfTripod is under which name results of Tripod are kept.
func nameOfTripod(divided bool) string {
	if divided {
		return dividedName
	}
	return tripodName
}

// divide puts dividedScript in the place of kube-apiserver. The process that it becomes runs in the folder, too.
func (s *side) divide() error {
	path, whole := filepath.Join(s.assets, "kube-apiserver"), filepath.Join(s.assets, "tripod")
	if err := os.Rename(path, whole); err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(nil, dividedScript, whole), 0o700)
}

// versionOf returns the second word that a program prints as its version: "Kubernetes v1.36.3", "Tripod v0.1.0".
func versionOf(ctx context.Context, program, command string) (string, error) {
	output, err := exec.CommandContext(ctx, program, command).Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version (make build test-assets?): %w", program, err)
	}
	words := strings.Fields(string(output))
	if len(words) < 2 {
		return "", fmt.Errorf("%s %s says %q, not its version", program, command, output)
	}
	return words[1], nil
}

func (s *side) link(apiserver string) error {
	if err := os.MkdirAll(s.assets, 0o700); err != nil {
		return err
	}
	for name, target := range map[string]string{"kube-apiserver": apiserver, "etcd": etcdBinary} {
		path, err := filepath.Abs(target)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(s.assets, name))
		}
		if err != nil {
			return fmt.Errorf("take %s (make build test-assets?): %w", target, err)
		}
	}
	kubectl, err := filepath.Abs(tripodBinary)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.assets, "kubectl"), fmt.Appendf(nil, kubectlScript, kubectl), 0o700)
}

// environment returns the variables by which envtest finds the programs. On a busy machine they may take long to start.
func (s *side) environment() []string {
	return []string{
		"KUBEBUILDER_ASSETS=" + s.assets,
		"TEST_ASSET_KUBE_APISERVER=" + filepath.Join(s.assets, "kube-apiserver"),
		"TEST_ASSET_ETCD=" + filepath.Join(s.assets, "etcd"),
		"TEST_ASSET_KUBECTL=" + filepath.Join(s.assets, "kubectl"),
		"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m",
		"KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=2m",
	}
}

// endLeftovers kills the API servers and etcds of tests that ended without stopping them. envtest gives each a process group of its own.
func (s *side) endLeftovers() error {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(command), s.assets+string(filepath.Separator)) {
			continue // the process has ended, or is not ours
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end a process that a test has left: %w", err)
		}
	}
	return nil
}
