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

// ofPeople are verbs of people. A program reports, sends, receives, trusts or distinguishes instead, which also says how.
var ofPeople = regexp.MustCompile(`(?i)\b(?:hears?|heard|tells?|told|believes?|believed|pleases?)\b`)

// rule is a pattern that prose must not have.
type rule struct {
	pattern *regexp.Regexp
	// remedy says what to write instead.
	remedy string
}

var (
	nameActors = rule{unnamed, "name the user, client, service or replica"}
	// nameActions holds for pages, contracts, the chart and comments, also those of tests. Scripts print sentences for people.
	nameActions = rule{ofPeople, "say what the program does: report, send, receive, trust, distinguish"}
)

// byOthers are pages with a text of others.
var byOthers = []string{"CODE_OF_CONDUCT.md"}

// rulesOf returns the rules for a file with a text: pages, contracts, the chart, scripts, and Go.
func rulesOf(file string, text []byte) []rule {
	switch {
	case slices.Contains(byOthers, file), strings.Contains(file, "/testdata/"):
		return nil
	case path.Ext(file) == ".md" && (strings.HasPrefix(file, "docs/design/") || path.Base(file) == "CHANGELOG.md"):
		return []rule{nameActors} // they are of their time
	case strings.HasSuffix(file, ".pb.go"), strings.HasPrefix(path.Base(file), "zz_generated"):
		return []rule{nameActors} // a generator copies them
	case slices.Contains([]string{".md", ".go", ".proto", ".yaml", ".yml", ".tpl", ".tmpl"}, path.Ext(file)):
		return []rule{nameActors, nameActions}
	case slices.Contains([]string{".sh", ".mk"}, path.Ext(file)),
		path.Base(file) == "Makefile", path.Base(file) == "go.mod", bytes.HasPrefix(text, []byte("#!")):
		return []rule{nameActors}
	}
	return nil
}

// checkWords finds words that prose must not have.
func checkWords() (problems []string, err error) {
	files, err := lines("git", "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if os.IsNotExist(err) || err == nil && !info.Mode().IsRegular() { // it is deleted, and not yet committed, or a link to a folder
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		rules := rulesOf(file, text)
		if path.Ext(file) == ".go" {
			text = commentsOf(text)
		}
		for _, rule := range rules {
			problems = append(problems, rule.find(file, text)...)
		}
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

func (r rule) find(file string, text []byte) (problems []string) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		for _, word := range r.pattern.FindAll(line, -1) {
			problems = append(problems, fmt.Sprintf("%s:%d: %q: %s", file, number, word, r.remedy))
		}
	}
	return problems
}
