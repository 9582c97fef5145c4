// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mostLines is how many lines of code may depend on the version of Kubernetes. Beyond that, two versions are no longer one source. A line
// of code is one with a part of a declaration. Licences, tags, package clauses, imports, comments and blank lines do not count.
const mostLines = 300

const begin, end = "<!-- begin of the differences, written by make fix-generated -->\n", "<!-- end of the differences -->\n"

// ofVersion matches a tag of a version, and that of all others.
var ofVersion = regexp.MustCompile(`(?m)^//go:build (!?)kube([0-9.]+)$`)

// writeTable writes which files depend on the version of Kubernetes into a page.
func writeTable(root, page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	table, err := differences(root)
	if err != nil {
		return err
	}
	before, rest, hasBegin := strings.Cut(string(text), begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s has no place for the table:\n%s%s", page, begin, end)
	}
	return os.WriteFile(page, []byte(before+begin+table+end+after), 0o644)
}

// differences lists the files that people write and that depend on the version.
func differences(root string) (string, error) {
	var b strings.Builder
	b.WriteString("\n| file | built with Kubernetes | lines of code | all lines |\n|---|---|---|---|\n")
	sum, sumOfAll := 0, 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(append(ignored, ".git"), name):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // of this checkout
		if err != nil {
			return err
		}
		with := versionsOf(name, text)
		if with == "" {
			return nil
		}
		lines, err := code(text)
		all := bytes.Count(text, []byte("\n"))
		sum, sumOfAll = sum+lines, sumOfAll+all
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d |\n", name, with, lines, all)
		return err
	})
	fmt.Fprintf(&b, "| sum, at most %d lines of code | | %d | %d |\n\n", mostLines, sum, sumOfAll)
	if err == nil && sum > mostLines {
		err = fmt.Errorf("%d lines of code depend on the version of Kubernetes, and %d may", sum, mostLines)
	}
	return b.String(), err
}

// versionsOf returns the versions that a file is for, or nothing if it does not depend on them or is generated.
func versionsOf(name string, text []byte) string {
	if rest, of := strings.CutPrefix(name, "kube/"); of && !bytes.Contains(text, []byte("Code generated")) {
		minor, _, _ := strings.Cut(rest, "/")
		return minor
	}
	head, _, _ := bytes.Cut(append([]byte("\n"), text...), []byte("\npackage "))
	found := ofVersion.FindSubmatch(head)
	switch {
	case found == nil:
		return ""
	case len(found[1]) > 0:
		return "all but " + string(found[2])
	}
	return string(found[2])
}

// code counts the lines of declarations other than imports, without comments and blank lines.
func code(text []byte) (int, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	declared := file.Name.End()
	for _, imported := range file.Decls {
		if imports, ok := imported.(*ast.GenDecl); ok && imports.Tok == token.IMPORT {
			declared = imports.End()
		}
	}
	var tokens scanner.Scanner
	again := token.NewFileSet()
	tokens.Init(again.AddFile("", -1, len(text)), text, nil, 0)
	lines := map[int]bool{}
	for {
		at, kind, literal := tokens.Scan()
		switch {
		case kind == token.EOF:
			return len(lines), nil
		case again.Position(at).Offset >= set.Position(declared).Offset && literal != "\n": // which ends a line
			lines[again.Position(at).Line] = true
		}
	}
}
