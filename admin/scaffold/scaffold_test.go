// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// newModule writes an API service and opens it.
func newModule(t *testing.T) (*Module, string) {
	t.Helper()
	s, folder := complete(t), filepath.Join(t.TempDir(), "books")
	require.NoError(t, s.Write(folder))
	m, err := Open(folder)
	require.NoError(t, err)
	return m, folder
}

func TestAKindIsAdded(t *testing.T) {
	m, folder := newModule(t)
	require.NoError(t, m.AddKind(Kind{Kind: "ReadingRoom", ClusterScoped: true}))
	require.NoError(t, m.Save())
	main, err := os.ReadFile(filepath.Join(folder, "main.go"))
	require.NoError(t, err)
	assert.Contains(t, string(main), "AddToScheme: []func(*runtime.Scheme) error{addToScheme, addReadingRoomToScheme},")
	assert.Contains(t, string(main), "\t\t\t\t},\n\t\t\t\treadingRoomResource(),\n\t\t\t},\n")
	assert.Subset(t, tree(t, folder), []string{"readingroom.go", "readingroom.yaml", "readingroom_test.go", "v1alpha1/readingroom_types.go"})

	m, err = Open(folder)
	require.NoError(t, err)
	before := tree(t, folder)
	require.EqualError(t, m.AddKind(Kind{Kind: "ReadingRoom"}), "the package in v1alpha1 declares ReadingRoom already")
	for want, kind := range map[string]Kind{
		`--kind "room" is not in CamelCase, such as ReadingRoom`:                                {Kind: "room"},
		`--version "v1" is none of the versions of the module: v1alpha1`:                        {Kind: "Room", Version: "v1"},
		`--plural "Rooms": a DNS-1035 label must consist of lower case alphanumeric characters`: {Kind: "Room", Plural: "Rooms"},
	} {
		assert.ErrorContains(t, m.AddKind(kind), want)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "room.go"), []byte("package main\n"), 0o600))
	require.NoError(t, m.AddKind(Kind{Kind: "Room"}))
	require.ErrorContains(t, m.Save(), "room.go exists already")
	assert.ElementsMatch(t, append(before, "room.go"), tree(t, folder), "nothing else is written")
}

func TestAProgramThatLooksOtherwiseStaysAsItIs(t *testing.T) {
	_, folder := newModule(t)
	_, err := Open(filepath.Dir(folder))
	require.ErrorContains(t, err, "has no go.mod: go to the folder of an API service, or name it with --directory")
	text, err := os.ReadFile(filepath.Join(folder, "main.go"))
	require.NoError(t, err)
	other := regexp.MustCompile(`\[\]apiservice\.Resource`).ReplaceAll(text, []byte("append"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), regexp.MustCompile(`Resources: append\{`).ReplaceAll(other, []byte("Resources: mine{")), 0o600))
	m, err := Open(folder)
	require.NoError(t, err)
	require.ErrorContains(t, m.AddKind(Kind{Kind: "Room"}), "the program has 0 literals []apiservice.Resource{...}, and not one")
}

func TestAVersionIsAdded(t *testing.T) {
	m, folder := newModule(t)
	types := filepath.Join(folder, "v1alpha1", "types.go")
	text, err := os.ReadFile(types)
	require.NoError(t, err)
	nested := strings.Replace(string(text), "Text string `json:\"text\"`", "Text string `json:\"text\"`\n\tPages []Page `json:\"pages,omitempty\"`", 1)
	require.NoError(t, os.WriteFile(types, []byte(nested+"\ntype Page struct{ Text string }\n"), 0o600))
	require.NoError(t, m.AddKind(Kind{Kind: "Room"}))
	require.NoError(t, m.Save())
	before := tree(t, folder)
	for _, name := range []string{"v1beta1", "v1alpha2"} {
		m, err = Open(folder)
		require.NoError(t, err)
		require.NoError(t, m.AddVersion(name))
		require.NoError(t, m.Save())
	}
	assert.ElementsMatch(t, append(before,
		"v1beta1.go", "versions_test.go", "v1beta1/doc.go", "v1beta1/types.go", "v1beta1/room_types.go",
		"v1alpha2.go", "v1alpha2/doc.go", "v1alpha2/types.go", "v1alpha2/room_types.go"), tree(t, folder))
	main, err := os.ReadFile(filepath.Join(folder, "main.go"))
	require.NoError(t, err)
	assert.Regexp(t, `Versions: +\[\]string\{"v1beta1", "v1alpha2", "v1alpha1"\},\n\s*StorageVersion: +"v1alpha1",\n`, string(main))
	assert.Contains(t, string(main), "error{addToScheme, addRoomToScheme, addV1beta1ToScheme, addV1alpha2ToScheme},")
	assert.Len(t, regexp.MustCompile(`(?m)^//go:generate .* \./v1alpha1 \./v1beta1 \./v1alpha2$`).FindAll(main, -1), 2)
	doc, err := os.ReadFile(filepath.Join(folder, "v1beta1", "doc.go"))
	require.NoError(t, err)
	assert.NotContains(t, string(doc), "v1alpha1")
	assert.Contains(t, string(doc), "// +k8s:openapi-model-package=com.example.library.v1beta1\n")
	conversion, err := os.ReadFile(filepath.Join(folder, "v1beta1.go"))
	require.NoError(t, err)
	assert.Contains(t, string(conversion), "out.Spec = v1beta1.RoomSpec(in.Spec)")
	assert.Contains(t, string(conversion), "carryV1beta1(in.Spec, &out.Spec)", "a spec with types of the package in it")

	m, err = Open(folder)
	require.NoError(t, err)
	require.EqualError(t, m.AddVersion("v1beta1"), "the service has the version v1beta1 already")
	require.EqualError(t, m.AddVersion("1"), `"1" is not a version such as v1alpha1, v1beta1 or v1`)
	require.ErrorContains(t, m.AddKind(Kind{Kind: "Shelf"}), "the module has the versions v1beta1, v1alpha2, v1alpha1: choose one with --version")
}
