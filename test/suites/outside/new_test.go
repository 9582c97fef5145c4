// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

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

// tripodNew writes an API service and returns its folder.
func tripodNew(t *testing.T, env *framework.Environment, args ...string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "module")
	released.Output(t, ".", nil, env.Binary("tripod"), append([]string{"new", "api-service", "--directory", folder}, args...)...)
	return folder
}

// services have modules, versions and kinds that generated code names in different ways.
var services = map[string][]string{
	"books":  {"--group=library.example.com", "--kind=Book"},
	"stable": {"--group=library.example.com", "--kind=Book", "--version=v1", "--namespaced=false", "--plural=tomes"},
	"deep":   {"--group=a.b-c.example.org", "--kind=ReadingRoom", "--version=v2beta3", "--module=github.com/some-body/more.things/books/api"},
}

// The generated files that `tripod new` writes are those that the generators write, and the generators are found as the module names them.
func TestNewServicesHaveGeneratedFiles(t *testing.T) {
	env, goEnv := framework.ForTest(t), released.Environment(t)
	for name, args := range services {
		t.Run(name, func(t *testing.T) {
			folder := tripodNew(t, env, append(args, name)...)
			before := generated(t, folder)
			for file := range before {

				require.NoError(t, os.Remove(filepath.Join(folder, file)))
			}
			released.Output(t, folder, goEnv, "make", "generate")
			assert.Empty(t, cmp.Diff(generated(t, folder), before))
			assert.Len(t, before, 3)
			released.Output(t, folder, goEnv, "make", "test")
		})
	}
}

// generated returns the generated files by their paths.
func generated(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(entry.Name(), "zz_generated.") {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // in a folder of the test
		relative, _ := filepath.Rel(folder, path)
		all[relative] = string(content)
		return err
	}))
	return all
}

// A module that somebody has just written asks for nothing that the SDK does not require.
func TestNewServicesRequireWhatTheSDKRequires(t *testing.T) {
	env, goEnv := framework.ForTest(t), released.Environment(t)
	folder := tripodNew(t, env, append(services["books"], "books")...)
	before, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	released.Output(t, folder, goEnv, "go", "mod", "tidy")
	after, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(after), string(before)), "the requirements that tripod writes are direct, tidy and complete:\n%s", after)
	assert.NotContains(t, released.Output(t, folder, goEnv, "go", "list", "-m", "all"), "k8s.io/kubernetes ", "required modules")
}
