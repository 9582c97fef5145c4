// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outside builds API services as an author does who has nothing of this repository but released modules.
package outside

import (
	"io/fs"
	"maps"
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
	t.Run("the example", func(t *testing.T) { buildExample(t, env, goEnv) })
	t.Run("clients and limits", func(t *testing.T) { useClients(t, env, goEnv) })
	t.Run("kinds and versions", func(t *testing.T) { addToNew(t, env, goEnv) })
	for name, args := range newServices {
		t.Run(name, func(t *testing.T) { buildNew(t, env, goEnv, name, args) })
	}
}

func buildExample(t *testing.T, env *framework.Environment, goEnv []string) {
	program := t.TempDir()
	require.NoError(t, os.CopyFS(program, os.DirFS("../../../examples/wardle")))
	released.Output(t, program, goEnv, "go", "build", "-mod=mod", "-o", "wardle", ".")
	help := released.Output(t, program, nil, "./wardle", "--help")
	for _, flag := range []string{"--service-cert-file", "--etcd-servers", "--kubeconfig"} {
		assert.Contains(t, help, flag)
	}
	needsNoKubernetes(t, program, goEnv)

	released.Output(t, program, goEnv, env.Binary("tripod"), "new", "client")
	released.Output(t, program, goEnv, "go", "vet", "-mod=mod", "./client/...")
	assert.Contains(t, read(t, program, "client/clientset/clientset.go"), "WardleV1beta1() ")
	assert.Contains(t, read(t, program, "client/clientset/typed/wardle/v1alpha1/fischer.go"), "Fischers() FischerInterface", "without a namespace")
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

// useClients tests that a program can use the clients which `tripod new client` generates, and that limits in comments of fields hold.
func useClients(t *testing.T, env *framework.Environment, goEnv []string) {
	folder := filepath.Join(t.TempDir(), "books")
	tripod := func(args ...string) string {
		return released.Output(t, ".", goEnv, env.Binary("tripod"), append(append([]string{"new"}, args...), "--directory="+folder)...)
	}
	tripod("api-service", "books", "--group=library.example.com", "--kind=Book")
	tripod("kind", "Person", "--namespaced=false", "--plural=people")
	types := limited(t, read(t, folder, "v1alpha1/types.go"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "v1alpha1/types.go"), []byte(types), 0o600))
	tripod("version", "v1beta1")
	released.Output(t, folder, goEnv, "go", "mod", "tidy")
	released.Output(t, folder, goEnv, "make", "generate")
	said := tripod("client")
	assert.Contains(t, said, "library.example.com/books/client has the clients of v1beta1, v1alpha1, as Go packages: "+
		"clientset, applyconfiguration, listers, informers.\n")
	require.NoError(t, os.CopyFS(folder, os.DirFS("testdata/clients")))
	require.NoError(t, os.Rename(filepath.Join(folder, "client_test.go.txt"), filepath.Join(folder, "client_test.go")))
	released.Output(t, folder, goEnv, "go", "vet", "./...")
	released.Output(t, folder, goEnv, "make", "test")

	before := contents(t, folder)
	tripod("client")
	assert.Empty(t, cmp.Diff(before, contents(t, folder)), "clients that are generated again")
	released.Output(t, folder, goEnv, "make", "generate")
	assert.Empty(t, cmp.Diff(before, contents(t, folder)), "make generate also generates clients")
}

// limited gives the types of a version fields with limits.
func limited(t *testing.T, types string) string {
	t.Helper()
	const text = "\tText string `json:\"text\"`\n"
	require.Contains(t, types, text)
	return strings.Replace(types, text, text+`
	// +k8s:validation:maximum=5
	Stars int32 `+"`json:\"stars,omitempty\"`"+`
	Form Form `+"`json:\"form,omitempty\"`"+`
	// +k8s:validation:pattern="^[0-9-]+$"
	ISBN string `+"`json:\"isbn,omitempty\"`"+`
`, 1) + `
// Form is paper or sound.
// +enum
type Form string

const (
	Paper Form = "paper"
	Sound Form = "sound"
)
`
}

// contents returns the files of a module by their paths.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			relative, _ := filepath.Rel(folder, path)
			all[relative] = read(t, folder, relative)
		}
		return err
	}))
	return all
}

// generated returns the generated files by their paths.
func generated(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := contents(t, folder)
	maps.DeleteFunc(all, func(path, _ string) bool { return !strings.HasPrefix(filepath.Base(path), "zz_generated.") })
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
