// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// unnamed are words for an actor without a name. A reader who meets one has to guess which user, client, service or replica is meant.
var unnamed = regexp.MustCompile(`(?i)\b(?:nobody|somebody|anybody|everybody|no one|someone|anyone|everyone|whoever|whomever|` +
	`he|him|his|himself|she|her|hers|herself|who asks)\b`)

// byOthers are pages with a text of others.
var byOthers = []string{"CODE_OF_CONDUCT.md"}

// checkWords finds words for actors without a name on pages, in comments of Go outside of tests, and in the chart and the contracts.
func checkWords() (problems []string, err error) {
	files, err := lines("git", "ls-files", "--cached", "--others", "--exclude-standard",
		"*.md", "*.go", "*.tmpl", "*.tpl", "*.yaml", "*.proto")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if slices.Contains(byOthers, file) || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) { // it is deleted, and not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		if path.Ext(file) == ".go" {
			text = commentsOf(text)
		}
		problems = append(problems, unnamedIn(file, text)...)
	}
	return problems, nil
}

// commentsOf returns a Go file with nothing but its comments, each in its line.
func commentsOf(source []byte) []byte {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	var comments bytes.Buffer
	line := 1
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return comments.Bytes()
		}
		if kind != token.COMMENT {
			continue
		}
		for ; line < file.Line(at); line++ {
			comments.WriteByte('\n')
		}
		comments.WriteString(text)
		line += strings.Count(text, "\n")
	}
}

func unnamedIn(file string, text []byte) (problems []string) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		for _, word := range unnamed.FindAll(line, -1) {
			problems = append(problems, fmt.Sprintf("%s:%d: %q: name the user, client, service or replica", file, number, word))
		}
	}
	return problems
}
