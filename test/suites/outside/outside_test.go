// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outside builds API services as an author does who has nothing of this repository but released modules.
package outside

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/released"
)

func TestAPIServicesAreBuiltOutsideOfTheRepository(t *testing.T) {
	env, goEnv := framework.ForTest(t), released.Environment(t)
	t.Run("the example", func(t *testing.T) { buildExample(t, goEnv) })
	t.Run("kinds and versions", func(t *testing.T) { addToNew(t, env, goEnv) })
	for name, args := range newServices {
		t.Run(name, func(t *testing.T) { buildNew(t, env, goEnv, name, args) })
	}
}

func buildExample(t *testing.T, goEnv []string) {
	program := t.TempDir()
	require.NoError(t, os.CopyFS(program, os.DirFS("../../../examples/wardle")))
	released.Output(t, program, goEnv, "go", "build", "-mod=mod", "-o", "wardle", ".")
	help := released.Output(t, program, nil, "./wardle", "--help")
	for _, flag := range []string{"--service-cert-file", "--etcd-servers", "--kubeconfig"} {
		assert.Contains(t, help, flag)
	}
	needsNoKubernetes(t, program, goEnv)
}

// newServices have modules, versions and kinds that generated code names in different ways.
var newServices = map[string][]string{
	"books":  {"--group=library.example.com", "--kind=Book"},
	"stable": {"--group=library.example.com", "--kind=Book", "--version=v1", "--namespaced=false", "--plural=tomes"},
	"deep":   {"--group=a.b-c.example.org", "--kind=ReadingRoom", "--version=v2beta3", "--module=github.com/some-body/more.things/books/api"},
}

// buildNew tests what `tripod new` writes: its own tests pass, its requirements are direct, tidy and complete, and its generated files are those that
// the generators write.
func buildNew(t *testing.T, env *framework.Environment, goEnv []string, name string, args []string) {
	folder := filepath.Join(t.TempDir(), "module")
	released.Output(t, ".", nil, env.Binary("tripod"), append([]string{"new", "api-service", name, "--directory=" + folder}, args...)...)
	required := read(t, folder, "go.mod")
	released.Output(t, folder, goEnv, "make", "test")
	tidy := read(t, folder, "go.mod")
	assert.True(t, strings.HasPrefix(tidy, required), tidy)
	needsNoKubernetes(t, folder, goEnv)

	written := generated(t, folder)
	assert.Len(t, written, 3)
	for file := range written {
		require.NoError(t, os.Remove(filepath.Join(folder, file)))
	}
	released.Output(t, folder, goEnv, "make", "generate")
	assert.Empty(t, cmp.Diff(generated(t, folder), written))
}

// addToNew tests that a service with a kind and versions that `tripod new` has added passes the tests that are written for them.
func addToNew(t *testing.T, env *framework.Environment, goEnv []string) {
	folder := filepath.Join(t.TempDir(), "books")
	for _, args := range [][]string{
		{"api-service", "books", "--group=library.example.com", "--kind=Book"}, {"kind", "ReadingRoom", "--namespaced=false"},
		{"version", "v1beta1"}, {"version", "v1"}, {"kind", "Shelf", "--version=v1alpha1"},
	} {
		released.Output(t, ".", nil, env.Binary("tripod"), append(append([]string{"new"}, args...), "--directory="+folder)...)
	}
	released.Output(t, folder, goEnv, "go", "mod", "tidy")
	released.Output(t, folder, goEnv, "make", "generate", "test")
	output := released.Output(t, folder, goEnv, "go", "test", "-count=1", "-v", "-run=TestNoVersionLosesFields", ".")
	for _, kind := range []string{"Book", "ReadingRoom", "Shelf"} {
		assert.Contains(t, output, "--- PASS: TestNoVersionLosesFields/"+kind+" ")
	}
	for _, version := range []string{"v1alpha1", "v1beta1", "v1"} {
		assert.Contains(t, output, "round tripping to library.example.com/"+version+", Kind=ReadingRoom")
	}
}

// generated returns the generated files by their paths.
func generated(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(entry.Name(), "zz_generated.") {
			relative, _ := filepath.Rel(folder, path)
			all[relative] = read(t, folder, relative)
		}
		return err
	}))
	return all
}

func read(t *testing.T, folder, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, file))
	require.NoError(t, err)
	return string(content)
}

func needsNoKubernetes(t *testing.T, folder string, goEnv []string) {
	t.Helper()
	assert.NotContains(t, released.Output(t, folder, goEnv, "go", "list", "-m", "all"), "k8s.io/kubernetes ", "required modules")
}
