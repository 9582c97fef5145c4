// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tutorial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = `# Page

## One

~~~sh
mkdir a && cd a
~~~

## Two

~~~sh
echo "took  1.5s"
~~~

~~~text
took 20ms
~~~

<!-- test: not run, because there is no such program -->

~~~sh
nothing
~~~

## Three

~~~sh
pwd
~~~
`

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "~~~", "```")), 0o600))
	return file
}

func TestAReaderFollowsThePage(t *testing.T) {
	blocks, err := Read(write(t, page), "One", "Two")
	require.NoError(t, err)
	require.Len(t, blocks, 4)
	r := NewReader(t, os.Environ())
	var notRun []string
	r.NotRun = func(b Block) { notRun = append(notRun, b.Content) }
	r.Follow(blocks)
	assert.Equal(t, []string{"nothing\n"}, notRun)
	assert.Equal(t, "a", filepath.Base(r.Dir), "the reader stays where a script goes")
}

func TestAReaderSeesWhetherScriptsFail(t *testing.T) {
	for _, tc := range []struct {
		name, script, shown, want string
		mark                      Mark
	}{
		{"succeeds", "echo a\n", "a\n", "", ""},
		{"fails after the output that is shown", "echo a; exit 1\n", "a\n", "exit status 1", ""},
		{"fails without output", "exit 1\n", "", "exit status 1", ""},
		{"shall fail", "echo a; exit 1\n", "a\n", "", Fails},
		{"shall fail in another way", "echo b; exit 1\n", "a\n", "the page shows", Fails},
		{"shall fail and succeeds", "echo a\n", "a\n", "without an error", Fails},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := NewReader(t, os.Environ()).try(t.Context(), Block{Content: tc.script, Mark: tc.mark}, tc.shown)
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestOutputIsComparedWithoutWhatDiffersEachTime(t *testing.T) {
	for _, tc := range []struct {
		name, shown, printed string
		want                 bool
	}{
		{"the same", "a b\n", "a b\n", true},
		{"another", "a b\n", "a c\n", false},
		{"wider columns and another age", "NAME   AGE\nx      2s\n", "NAME      AGE\nx         1m10s\n", true},
		{"empty lines", "a\n\nb\n", "a\nb\n\n", true},
		{"a missing line", "a\nb\n", "a\n", false},
		{"one line more", "a\n", "a\nb\n", false},
		{"lines that the page leaves out", "a\n...\nz\n", "a\nb\nc\nz\n", true},
		{"none left out", "a\n...\nz\n", "a\nz\n", true},
		{"another after those left out", "a\n...\nz\n", "a\nb\ny\n", false},
		{"memory and port", "126 MiB 127.0.0.1:6443", "9 MiB 127.0.0.1:7443", true},
		{"a small number", "size 1", "size 2", false},
		{"a fraction", "took 0.2", "took 12.5", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, pattern(tc.shown).MatchString(normal(tc.printed)), "%s", pattern(tc.shown))
		})
	}
}

func TestWrongPagesAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"no reason", "<!-- test: not run -->\n", "no reason"},
		{"unknown mark", "<!-- test: never -->\n", "unknown mark"},
		{"no end", "~~~sh\na\n", "has no end"},
		{"no such heading", page, "no blocks"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Read(write(t, tc.text), "One", "Nine")
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestOnlyScriptsThatReadAreRunAgain(t *testing.T) {
	for script, want := range map[string]bool{
		"tripod kubectl get books\n": true, "kubectl --namespace tripod get hpa\n": true, "tripod status\n": true,
		"tripod kubectl apply -f a\n": false, "tripod kubectl get books\ntripod kubectl delete book a\n": false, "make\n": false,
		"tripod kubectl auth can-i get books --as=jane\n": true, "tripod connect tripod --namespace a -- kubectl get books\n": true,
		"tripod connect tripod --namespace a -- kubectl delete book a\n": false,
	} {
		assert.Equal(t, want, reads(script), script)
	}
}
