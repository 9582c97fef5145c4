// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTemplatesEnd(t *testing.T) {
	long := make([]any, 2000)
	for i := range long {
		long[i] = "x"
	}
	data := map[string]any{"list": long, "map": map[string]any{"b": "2", "a": "1"}, "number": int64(1) << 40, "text": "abc"}
	for text, want := range map[string]string{
		`{{range .list}}{{.}}{{end}}`:                                                strings.Repeat("x", 2000),
		`{{range $k, $v := .map}}{{$k}}={{$v}},{{end}}`:                              "a=1,b=2,",
		`{{range .nothing}}a{{else}}b{{end}}`:                                        "b",
		`{{range $i, $e := .list}}{{if eq $i 2}}{{break}}{{end}}{{end}}`:             "",
		`{{with .map}}{{range .}}{{.}}{{end}}{{end}}`:                                "12",
		`{{define "one"}}[{{.}}]{{end}}{{template "one" .text}}`:                     "[abc]",
		`{{range splitList "," "a,b"}}{{.}};{{end}}{{range (list 1 2)}}{{.}}{{end}}`: "a;b;12",
	} {
		got, err := render(text, data)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		`{{range 9999999999}}{{end}}`: "range takes a list or a map",
		`{{range .number}}{{end}}`:    "range takes a list or a map",
		`{{range .list}}{{range $.list}}{{range $.list}}{{end}}{{end}}{{end}}`:                                         "more than a million elements",
		`{{define "a"}}{{range $.list}}{{range $.list}}{{end}}{{end}}{{end}}{{if true}}{{template "a" .}}{{end}}`:      "more than a million elements",
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`:                                                        "exceeded maximum template depth",
		`{{define "a"}}{{if .}}{{template "a" (rest .)}}{{template "a" (rest .)}}{{end}}{{end}}{{template "a" .list}}`: "more than a million elements",
		`{{range .list}}{{range $.list}}xxxxxxxxxxxxxxxxxxxx{{end}}{{end}}`:                                            "more than 1 MiB",
	} {
		_, err := render(text, data)
		assert.ErrorContains(t, err, want, text)
	}
}
