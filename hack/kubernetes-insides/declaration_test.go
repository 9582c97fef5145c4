// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const upstream = `package p

import "fmt"

const (
	first = iota
	second
)

const limit = 10 // of something

var a, b = 1, 2

// T is a type.
type T[K any] struct{ limit K }

func plain() { fmt.Println() }

// method has a comment.
func (t *T[K]) method() int {
	// So has this.
	return limit
}

func (T[K]) plain() {}
`

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestSource(t *testing.T) {
	path := write(t, t.TempDir(), "p.go", upstream)
	for name, want := range map[string]string{
		"plain":    "func plain() { fmt.Println() }",
		"T.plain":  "func (T[K]) plain() {}",
		"T.method": "func (t *T[K]) method() int {\n\t// So has this.\n\treturn limit\n}",
		"T":        "T[K any] struct{ limit K }",
		"limit":    "limit = 10",
		"b":        "a, b = 1, 2",
		"second":   "const (\n\tfirst = iota\n\tsecond\n)",
	} {
		got, err := source(path, name)
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"method", "T.first", "fmt"} {
		if got, err := source(path, name); !errors.Is(err, errGone) {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if _, err := source(path+".not", "plain"); !errors.Is(err, errGone) {
		t.Errorf("of no file: %v", err)
	}
}

func TestDigestsAreOfTokens(t *testing.T) {
	of := func(text string) string { return digest([]byte(text)) }
	same := of("func f() { g(1); h() }")
	for _, text := range []string{
		"func f() {\n\tg(1)\n\n\t// Then this.\n\th() }",
		"func f() { g( 1 ) /* really */; h() }",
	} {
		assert.Equal(t, same, of(text), "%q has another digest", text)
	}
	for _, text := range []string{"func f() { g(2); h() }", "func f() { g(1); h }", "func f() { h(); g(1) }", "func F() { g(1); h() }"} {
		if of(text) == same {
			t.Errorf("%q has the same digest", text)
		}
	}
}
