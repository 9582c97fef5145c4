// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// released is the code of a module and of one that it requires, as it was released.
var released = map[string]string{
	"reference":               "# the last release\nv0.1.0\n",
	"module/go.mod":           "module example.com/module\n\ngo 1.26.0\n\nrequire example.com/needed v0.1.0\n",
	"module/module.go":        "package module\n\nimport (\n\t\"unicode/utf8\"\n\n\t\"example.com/needed\"\n)\n\ntype Size = needed.Size\n\nfunc init() {}\n\nfunc Grow(by Size) { println(utf8.UTFMax, by) }\n",
	"module/internal/mine.go": "package internal\n\nfunc Mine() {}\n\nfunc init() {}\n",
	"needed/go.mod":           "module example.com/needed\n\ngo 1.26.0\n",
	"needed/needed.go":        "package needed\n\ntype Size int\n",
	"allowed.yaml":            "[]\n",
}

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
}

func git(t *testing.T, folder string, args ...string) {
	t.Helper()
	output, err := exec.Command("git", append([]string{"-C", folder, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...).
		CombinedOutput()
	require.NoError(t, err, "%s", output)
}

func TestOnlyListedChangesMayBreakUsers(t *testing.T) {
	const grown = "package module\n\nimport \"example.com/needed\"\n\ntype Size = needed.Size\n\nfunc Grow(by, twice Size) {}\n"
	const change = `Grow: changed from func(Size) to func(Size, Size)`
	for _, tc := range []struct {
		name    string
		changed map[string]string
		want    string // of the error
		output  string
	}{
		{"nothing has changed", nil, "", "module since v0.1.0: 0 compatible changes, 0 incompatible"},
		{"a name is new", map[string]string{"module/new.go": "package module\n\nconst New = 1\n"}, "", "new: New: added"},
		{"a signature has changed", map[string]string{"module/module.go": grown}, "this breaks the code of users: " + change, "1 incompatible"},
		{"a package has gone", map[string]string{"module/module.go": "package main\n\nfunc main() {}\n"}, "it has no packages", ""},
		{"an internal package has changed", map[string]string{"module/internal/mine.go": "package internal\n"}, "", "0 incompatible"},
		{
			"the change is listed", map[string]string{"module/module.go": grown, "allowed.yaml": "- {change: '" + change + "', reason: because}\n"},
			"", "1 incompatible",
		},
		{
			"the list has no reason", map[string]string{"module/module.go": grown, "allowed.yaml": "- {change: '" + change + "'}\n"},
			"allowed.yaml: each entry needs change and reason", "",
		},
		{"the list has more", map[string]string{"allowed.yaml": "- {change: 'Grow: removed', reason: because}\n"}, `allowed.yaml lists "Grow: removed"`, ""},
		{"a type is wrong", map[string]string{"module/new.go": "package module\n\nvar New Missing\n"}, "undefined: Missing", ""},
		{"no such release", map[string]string{"reference": "v0.2.0\n"}, "git fetch --tags --unshallow", ""},
		{"no release", map[string]string{"reference": "# none\n"}, "reference names no release", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			repository := t.TempDir()
			write(t, repository, released)
			git(t, repository, "init", "--quiet")
			git(t, repository, "add", ".")
			git(t, repository, "commit", "--quiet", "--message=first")
			git(t, repository, "tag", "v0.1.0")
			write(t, repository, tc.changed)
			var out bytes.Buffer
			err := comparison{
				repository: repository, module: "module", reference: "reference", allowed: "allowed.yaml",
			}.run(&out)
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			assert.Contains(t, out.String(), tc.output)
		})
	}
}
