// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package released lets tests build API services as an author does who has nothing of this repository but released modules.
package released

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	path   = "github.com/tripod-k8s/tripod/"
	github = "github.com/tripod-k8s"
)

// Modules are the modules that strangers may require.
var Modules = []string{"apiservice", "base", "proto"}

// Environment returns an environment in which Go finds the modules of this checkout at the versions that they require of one another, as if they were
// released.
func Environment(t testing.TB) []string {
	t.Helper()
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	proxy := t.TempDir()
	for _, name := range Modules {
		require.NoError(t, release(root, name, proxy))
	}
	cache, proxies := GoEnv(t, "GOMODCACHE"), GoEnv(t, "GOPROXY")
	return append(os.Environ(),
		// A cache of its own, because releases of these versions may have another content.
		"GOMODCACHE="+filepath.Join(t.TempDir(), "modules"),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+proxies,
		"GONOSUMDB="+github, "GOWORK=off",
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -modcacherw")
}

// release puts a module into a folder with the layout of a module proxy, https://go.dev/ref/mod#goproxy-protocol.
func release(root, name, proxy string) error {
	example, err := os.ReadFile(filepath.Join(root, "examples/wardle/go.mod"))
	if err != nil {
		return err
	}
	required := regexp.MustCompile(`(?m)^\t` + path + name + ` (v\S+)`).FindSubmatch(example)
	if required == nil {
		return fmt.Errorf("examples/wardle does not require %s", name)
	}
	version := module.Version{Path: path + name, Version: string(required[1])}
	goMod, err := os.ReadFile(filepath.Join(root, name, "go.mod"))
	if err != nil {
		return err
	}
	if strings.Contains(string(goMod), "replace") {
		return fmt.Errorf("go.mod of %s has replace lines, and only those of the main module count", name)
	}
	versions := filepath.Join(proxy, path, name, "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		return err
	}
	for file, content := range map[string]string{
		"list": version.Version + "\n", version.Version + ".info": `{"Version": "` + version.Version + `"}`, version.Version + ".mod": string(goMod),
	} {
		if err := os.WriteFile(filepath.Join(versions, file), []byte(content), 0o600); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(versions, version.Version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromDir(archive, version, filepath.Join(root, name)), archive.Close())
}

// GoEnv returns a setting of Go.
func GoEnv(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// Output runs a program in a folder and returns what it writes. env may be nil.
func Output(t testing.TB, folder string, env []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = folder, env
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, "%s\n%s%s", command, out, stderr.String())
	return string(out)
}
