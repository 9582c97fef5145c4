// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outside builds an API service as somebody does who has nothing of this repository but released modules.
package outside

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	root   = "../../.."
	path   = "github.com/tripod-k8s/tripod/"
	github = "github.com/tripod-k8s"
)

// release puts the modules into a folder with the layout of a module proxy, at the versions that they require of one another. It is
// https://go.dev/ref/mod#goproxy-protocol.
func release(t *testing.T, modules ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range modules {
		required := regexp.MustCompile(`(?m)^\t` + path + name + ` (v\S+)`)
		example, err := os.ReadFile(filepath.Join(root, "examples/wardle/go.mod"))
		require.NoError(t, err)
		found := required.FindSubmatch(example)
		require.NotNil(t, found, "examples/wardle does not require %s", name)
		version := module.Version{Path: path + name, Version: string(found[1])}

		goMod, err := os.ReadFile(filepath.Join(root, name, "go.mod"))
		require.NoError(t, err)
		assert.NotContains(t, string(goMod), "replace", "go.mod of %s: only that of the main module counts", name)
		versions := filepath.Join(folder, path, name, "@v")
		require.NoError(t, os.MkdirAll(versions, 0o700))
		for file, content := range map[string]string{
			"list": version.Version + "\n", version.Version + ".info": `{"Version": "` + version.Version + `"}`, version.Version + ".mod": string(goMod),
		} {
			require.NoError(t, os.WriteFile(filepath.Join(versions, file), []byte(content), 0o600))
		}
		archive, err := os.Create(filepath.Join(versions, version.Version+".zip")) //nolint:gosec // in a folder of the test
		require.NoError(t, err)
		require.NoError(t, zip.CreateFromDir(archive, version, filepath.Join(root, name)))
		require.NoError(t, archive.Close())
	}
	return folder
}

func TestAPIServicesAreBuiltOutsideOfTheRepository(t *testing.T) {
	proxy := release(t, "apiservice", "internal", "proto")
	program := t.TempDir()
	require.NoError(t, os.CopyFS(program, os.DirFS(filepath.Join(root, "examples/wardle"))))

	// A cache of its own, because releases of these versions may have another content.
	cache := strings.TrimSpace(output(t, ".", nil, "go", "env", "GOMODCACHE"))
	proxies := strings.TrimSpace(output(t, ".", nil, "go", "env", "GOPROXY"))
	modules := filepath.Join(t.TempDir(), "modules")
	env := append(os.Environ(), "GOMODCACHE="+modules, "GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+proxies,
		"GONOSUMDB="+github, "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod -modcacherw")
	output(t, program, env, "go", "build", "-o", "wardle", ".")
	help := output(t, program, nil, "./wardle", "--help")
	for _, flag := range []string{"--service-cert-file", "--etcd-servers", "--kubeconfig"} {
		assert.Contains(t, help, flag)
	}
	assert.NotContains(t, output(t, program, env, "go", "list", "-m", "all"), "k8s.io/kubernetes ", "required modules")
}

// output runs a program and returns what it writes.
func output(t *testing.T, folder string, env []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = folder, env
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, "%s\n%s", command, stderr.String())
	return string(out)
}
