// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const goMod = "require (\n\tgo.etcd.io/etcd/server/v3 v3.ETCD\n\tk8s.io/kubernetes v1.KUBE\n)\n"

func goModOf(kube, etcd string) string {
	return strings.NewReplacer("KUBE", kube, "ETCD", etcd).Replace(goMod)
}

// newCheckout returns a version 1.36 of a checkout with these files.
func newCheckout(t *testing.T, files map[string]string) *version {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(root, name), content)
	}
	v, err := newVersion(root, "1.36")
	require.NoError(t, err)
	return v
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// contents returns the files below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		all[name] = string(content)
		return err
	}))
	return all
}

var checkout = map[string]string{
	"go.mod": goModOf("37.2", "7.3"), "kube/1.36/go.mod": goModOf("36.3", "6.16"), "a.go": "a", "generated.go": "for 1.37",
	"kube/1.36/generated.go": "for 1.36", "deploy/helm/tripod/values.yaml": "tag: v1.37.2, etcd v3.7.3\n", "bin/tools/lint": "lint",
	"bin/tools/openapi-gen": "of 1.37",
}

// tracked are the files of a checkout that git knows.
func tracked() (names []string) {
	for name := range checkout {
		if !strings.HasPrefix(name, "bin/") {
			names = append(names, name)
		}
	}
	return names
}

func TestTheCopyHasTheFilesOfTheVersion(t *testing.T) {
	v := newCheckout(t, checkout)
	write(t, filepath.Join(v.copy, "removed.go"), "of an earlier commit")
	write(t, filepath.Join(v.copy, "bin/tripod"), "built")
	require.NoError(t, v.write(tracked()))
	got := contents(t, v.copy)
	assert.Equal(t, map[string]string{
		"go.mod": goModOf("36.3", "6.16"), "a.go": "a", "generated.go": "for 1.36", "deploy/helm/tripod/values.yaml": "tag: v1.36.3, etcd v3.6.16\n",
		"kube/1.36/go.mod": goModOf("36.3", "6.16"), "kube/1.36/generated.go": "for 1.36", "bin/tripod": "built", "bin/tools/lint": "lint",
	}, got)
}

func TestAFileThatDoesNotChangeKeepsItsTime(t *testing.T) {
	v := newCheckout(t, checkout)
	require.NoError(t, v.write(tracked()))
	file := filepath.Join(v.copy, "go.mod")
	source, err := os.Stat(filepath.Join(v.set, "go.mod"))
	require.NoError(t, err)
	first, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, source.ModTime(), first.ModTime(), "make would build tools anew")
	require.NoError(t, v.write(tracked()))
	second, err := os.Stat(file)
	require.NoError(t, err)
	assert.True(t, os.SameFile(first, second))
	assert.Equal(t, first.ModTime(), second.ModTime())
}

func TestWhatACommandChangesIsSaved(t *testing.T) {
	for name, test := range map[string]struct {
		changed map[string]string
		want    map[string]string // what the version has beside or instead of its files
	}{
		"nothing":                 {nil, nil},
		"a file of the version":   {map[string]string{"generated.go": "again"}, map[string]string{"generated.go": "again"}},
		"a file of the checkout":  {map[string]string{"a.go": "another"}, map[string]string{"a.go": "another"}},
		"no difference any more":  {map[string]string{"generated.go": "for 1.37"}, map[string]string{"generated.go": ""}},
		"what git ignores":        {map[string]string{"bin/tripod": "built"}, nil},
		"the files of a version":  {map[string]string{"kube/1.36/generated.go": "again"}, nil},
		"a file with the version": {map[string]string{"deploy/helm/tripod/values.yaml": "tag: v1.36.3, etcd v3.6.16\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := newCheckout(t, checkout)
			require.NoError(t, v.write(tracked()))
			write(t, filepath.Join(v.root, "a.go"), "edited meanwhile")
			for file, content := range test.changed {
				write(t, filepath.Join(v.copy, file), content)
			}
			require.NoError(t, v.save())
			want := map[string]string{"go.mod": goModOf("36.3", "6.16"), "generated.go": "for 1.36"}
			for file, content := range test.want {
				if want[file] = content; content == "" {
					delete(want, file)
				}
			}
			assert.Equal(t, want, contents(t, v.set))
		})
	}
}

func TestFilesThatOnlyOneSideHasAreErrors(t *testing.T) {
	v := newCheckout(t, checkout)
	require.NoError(t, v.write(tracked()))
	write(t, filepath.Join(v.copy, "new/b.go"), "b")
	require.ErrorContains(t, v.save(), "the command made new/b.go, which this checkout does not have")
	require.NoError(t, v.write(tracked()))
	require.NoError(t, os.Remove(filepath.Join(v.copy, "a.go")))
	require.ErrorContains(t, v.save(), "the command removed a.go")

	write(t, filepath.Join(v.set, "renamed.go"), "had another name")
	require.ErrorContains(t, v.write(tracked()), "renamed.go takes the place of no file: rename or remove it")
}

func TestAVersionThatDoesNotExistLeavesNothingBehind(t *testing.T) {
	v := newCheckout(t, checkout)
	for _, minor := range []string{"", "1.29", "1.36.3", "../1.36"} {
		_, err := newVersion(v.root, minor)
		assert.ErrorContains(t, err, "kube/ has no version \""+minor+"\" of Kubernetes")
	}
	assert.NoDirExists(t, v.copy)
}
