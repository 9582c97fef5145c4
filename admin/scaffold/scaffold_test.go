// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func books() APIService {
	return APIService{
		Name: "books", Group: "library.example.com", Version: "v1alpha1", Kind: "Book",
		Versions: Versions{APIService: "v0.1.0", Kubernetes: "v0.36.3", KubeOpenAPI: "v0.0.0-20260317180543-43fb72c5454a"},
	}
}

func TestWhatIsNotGivenIsDerived(t *testing.T) {
	for _, tc := range []struct{ kind, plural, want string }{
		{"Book", "", "books"}, {"Box", "", "boxes"}, {"Library", "", "libraries"}, {"Key", "", "keys"}, {"Branch", "", "branches"},
		{"ReadingRoom", "", "readingrooms"}, {"Person", "people", "people"},
	} {
		s := books()
		s.Kind, s.Plural = tc.kind, tc.plural
		require.NoError(t, s.Complete())
		assert.Equal(t, tc.want, s.Plural)
		assert.Equal(t, "library.example.com/books", s.Module)
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*APIService)
		want   string
	}{
		{"name of a service of Tripod", func(s *APIService) { s.Name = "core" }, `"core" is a service of Tripod itself: choose another name`},
		{"name that is no label", func(s *APIService) { s.Name = "My Books" }, `"My Books" is not the name of a service`},
		{"no name", func(s *APIService) { s.Name = "" }, `"" is not the name of a service`},
		{"group that is no domain", func(s *APIService) { s.Group = "Library.example.com" }, `--group "Library.example.com": a lowercase RFC 1123 subdomain`},
		{"group without a dot", func(s *APIService) { s.Group = "library" }, `--group "library" has no dot: groups without one are Kubernetes' own`},
		{"no group", func(s *APIService) { s.Group = "" }, `--group "": `},
		{"version that is none", func(s *APIService) { s.Version = "1.0" }, `--version "1.0" is not a version such as v1alpha1`},
		{"kind in lower case", func(s *APIService) { s.Kind = "book" }, `--kind "book" is not in CamelCase`},
		{"kind in kebab-case", func(s *APIService) { s.Kind = "Reading-Room" }, `--kind "Reading-Room" is not in CamelCase`},
		{"kind that is a path", func(s *APIService) { s.Kind = "../Book" }, `--kind "../Book" is not in CamelCase`},
		{"kind of a list", func(s *APIService) { s.Kind = "BookList" }, `--kind "BookList" ends in List`},
		{"plural in upper case", func(s *APIService) { s.Plural = "Books" }, `--plural "Books": `},
		{"module without a domain", func(s *APIService) { s.Module = "books" }, `--module: malformed module path "books": missing dot`},
		{"module that is a path", func(s *APIService) { s.Module = "../books" }, `--module: malformed module path "../books"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := books()
			tc.change(&s)
			err := s.Complete()
			require.ErrorContains(t, err, tc.want)
			assert.NotContains(t, err.Error(), "\n", "it is one line")
		})
	}
}

func complete(t *testing.T) APIService {
	t.Helper()
	s := books()
	require.NoError(t, s.Complete())
	return s
}

// tree returns the paths of all files below a folder.
func tree(t *testing.T, folder string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			relative, _ := filepath.Rel(folder, path)
			paths = append(paths, relative)
		}
		return err
	}))
	return paths
}

var written = []string{
	".dockerignore", ".gitignore", "Dockerfile", "Makefile", "README.md", "api_test.go", "go.mod", "main.go", "main_test.go",
	"openapi/doc.go", "openapi/zz_generated.openapi.go", "sample.yaml", "scheme.go", "v1alpha1/doc.go", "v1alpha1/types.go", "v1alpha1/zz_generated.deepcopy.go",
	"v1alpha1/zz_generated.model_name.go", "validation.go",
}

func TestTheModuleIsWrittenIntoANewOrAnEmptyFolder(t *testing.T) {
	s, parent := complete(t), t.TempDir()
	require.NoError(t, s.Write(filepath.Join(parent, "new")))
	assert.Equal(t, written, tree(t, filepath.Join(parent, "new")))

	empty := filepath.Join(parent, "empty")
	require.NoError(t, os.MkdirAll(filepath.Join(empty, ".git"), 0o700))
	t.Chdir(empty)
	require.NoError(t, s.Write("."))
	assert.Equal(t, written, tree(t, empty))

	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing is left beside the folders")
}

func TestNothingIsWrittenWhereThatIsNotPossible(t *testing.T) {
	s, parent := complete(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(parent, "file"), []byte("mine"), 0o600))
	before := tree(t, parent)
	assert.ErrorContains(t, s.Write(parent), "the folder "+parent+" is not empty: choose another one with --directory")
	assert.Error(t, s.Write(filepath.Join(parent, "file")), "it is a file")
	assert.Error(t, s.Write(filepath.Join(parent, "missing", "books")), "its parent is missing")
	assert.Equal(t, before, tree(t, parent))

	s.Kind = "not Go" // as of a caller that forgets Complete
	assert.Error(t, s.Write(filepath.Join(parent, "books")))
	assert.Equal(t, before, tree(t, parent))
}

func TestObjectsMayBeInNoNamespace(t *testing.T) {
	s := complete(t)
	main, err := s.render("main.go")
	require.NoError(t, err)
	assert.NotContains(t, string(main), "ClusterScoped")
	s.ClusterScoped = true
	main, err = s.render("main.go")
	require.NoError(t, err)
	assert.Regexp(t, `ClusterScoped: +true,`, string(main))
}

func TestGoIsThatOfTheSDK(t *testing.T) {
	s := complete(t)
	ours, err := s.render("go.mod")
	require.NoError(t, err)
	sdk, err := os.ReadFile("../../apiservice/go.mod")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^go .*$`)
	assert.Equal(t, line.FindString(string(sdk)), line.FindString(string(ours)))
}
