// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aList names declarations of upstream, which are not recorded yet.
const aList = `# What we rely on.
versions:
  example.com/m: v1.0.0

insides:
- ours: [main.go]
  reliesOn: A limit of ten.
  tests: [.TestDifferencesAreReported]
  upstream:
    example.com/m/p/p.go:
      limit: ""
      T.method: ""  # returns it
- ours: [list.go]
  reliesOn: Something else.
  upstream:
    example.com/m/p/p.go:
      plain: ""
`

// fixture is a list with recorded digests, and the folder of the module that it names.
type fixture struct {
	list string
	dir  string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{dir: t.TempDir()}
	write(t, f.dir, "p/p.go", upstream)
	f.list = write(t, t.TempDir(), "list.yaml", aList)
	c := f.compare(t)
	recorded := c.list.record(c.versions(), c.digests)
	require.NoError(t, os.WriteFile(f.list, recorded, 0o600))
	return f
}

func (f fixture) compare(t *testing.T) *comparison {
	t.Helper()
	l, err := readList(f.list)
	require.NoError(t, err)
	m := &module{path: "example.com/m", version: "v1.1.0", dir: f.dir}
	c := &comparison{list: l, modules: map[string]*module{"example.com/m/p/p.go": m}, digests: map[int]string{}}
	require.NoError(t, c.compare())
	return c
}

func TestRecordingChangesVersionsAndDigestsOnly(t *testing.T) {
	f := newFixture(t)
	content, err := os.ReadFile(f.list)
	require.NoError(t, err)
	got := string(content)
	for _, in := range f.compare(t).list.Insides {
		for _, d := range in.Upstream {
			assert.Len(t, d.digest, 32, "the digest of %s", d.name)
			got = strings.ReplaceAll(got, d.digest, `""`)
		}
	}
	want := strings.ReplaceAll(aList, "v1.0.0", "v1.1.0")
	assert.Equal(t, want, got, "but for digests the list")
}

func TestWhatIsAsRecordedIsNoDifference(t *testing.T) {
	f := newFixture(t)
	write(t, f.dir, "p/p.go", strings.ReplaceAll(upstream, "So has this.", "It returns ten."))
	if c := f.compare(t); len(c.changed)+len(c.gone) > 0 {
		t.Error(c.report())
	}
}

func TestAnEntryThatWasNeverRecordedIsReported(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, os.WriteFile(f.list, []byte(aList), 0o600))
	if got, want := f.compare(t).report(), "limit of example.com/m/p/p.go has no digest yet"; !strings.Contains(got, want) {
		t.Errorf("the report lacks %q:\n%s", want, got)
	}
}

func TestDifferencesAreReported(t *testing.T) {
	f := newFixture(t)
	changed := strings.ReplaceAll(upstream, "limit = 10", "limit = 11")
	changed = strings.ReplaceAll(changed, "func plain() { fmt.Println() }", "")
	write(t, f.dir, "p/p.go", changed)
	write(t, f.dir, "p/q.go", "package p\n\nfunc plain() {}\n")
	c := f.compare(t)
	got := c.report()
	for _, want := range []string{
		"example.com/m v1.1.0 changed limit since v1.1.0 (p/p.go)",
		"We rely on:  A limit of ten.",
		"Look at:     main.go\n",
		"Test:        go test ./ -run '^TestDifferencesAreReported$'",
		"example.com/m v1.1.0 no longer has plain since v1.1.0 (p/p.go); it is in example.com/m/p/q.go now",
		"Look at:     list.go\n",
	} {
		assert.Contains(t, got, want, "the report")
	}
	if strings.Contains(got, "T.method") {
		t.Errorf("the report is about what did not change:\n%s", got)
	}
}

func TestChangesAreShown(t *testing.T) {
	old := &module{path: "example.com/m", version: "v1.0.0", dir: t.TempDir()}
	now := &module{path: "example.com/m", version: "v1.1.0", dir: t.TempDir()}
	write(t, old.dir, "p.go", upstream)
	write(t, now.dir, "p.go", strings.ReplaceAll(upstream, "return limit", "return limit + 1"))
	var out bytes.Buffer
	require.NoError(t, showOne(&out, t.TempDir(), declaration{file: "example.com/m/p.go", name: "T.method"}, old, now))
	for _, want := range []string{
		"--- T.method of example.com/m/p.go v1.0.0", "+++ T.method of example.com/m/p.go v1.1.0", "-\treturn limit\n", "+\treturn limit + 1\n",
	} {
		assert.Contains(t, out.String(), want, "no %q in:\n%s", want, &out)
	}
}

func TestOurFilesAndTestsMustBeThere(t *testing.T) {
	if err := checkOurs([]inside{{Ours: []string{"main.go"}, Tests: []string{"..kubernetes-insides.TestSource"}}}); err == nil ||
		!strings.Contains(err.Error(), "no test TestSource in ..kubernetes-insides") {
		t.Errorf("error is %v", err)
	}
	assert.NoError(t, checkOurs([]inside{{Ours: []string{"main.go"}, Tests: []string{"../kubernetes-insides.TestSource"}}}))
	err := checkOurs([]inside{{Ours: []string{"moved.go"}, ReliesOn: "This."}})
	assert.ErrorContains(t, err, "moved.go does not exist: name the file that relies on this now: This.")
}

func TestFilesBelongToTheModuleWithTheLongestPath(t *testing.T) {
	modules := []string{"example.com/m", "example.com/m/v2", "example.com/m2"}
	for file, want := range map[string]string{
		"example.com/m/p/p.go":    "example.com/m",
		"example.com/m/v2/p/p.go": "example.com/m/v2",
		"example.com/m3/p.go":     "",
	} {
		assert.Equal(t, want, moduleOf(file, modules), file)
	}
}

func TestListsThatAreRefused(t *testing.T) {
	for name, content := range map[string]string{
		"an unknown field":          "insides: [{ours: [a], reliesOn: b, upstreams: {c: {d: e}}}]",
		"no file of ours":           "insides: [{reliesOn: b, upstream: {c: {d: e}}}]",
		"no sentence":               "insides: [{ours: [a], upstream: {c: {d: e}}}]",
		"no declaration":            "insides: [{ours: [a], reliesOn: b}]",
		"declarations without file": "insides: [{ours: [a], reliesOn: b, upstream: [d]}]",
		"files without declaration": "insides: [{ours: [a], reliesOn: b, upstream: {c: d}}]",
	} {
		if _, err := readList(write(t, t.TempDir(), "list.yaml", content)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
