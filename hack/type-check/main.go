// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command type-check checks the types of packages and their tests without compiling anything: it reads what they import from source, and
// no function there. So it finds in a minute what another version of Kubernetes breaks; a compiler first builds Kubernetes.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"slices"

	"golang.org/x/tools/go/packages"
)

func main() {
	found, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "type-check:", err)
	}
	if err != nil || found > 0 {
		os.Exit(1)
	}
}

// run prints the errors in packages, and returns how many there are.
func run(patterns []string, out io.Writer) (errors int, err error) {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
		packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes
	ours, err := foldersOf(patterns)
	if err != nil {
		return 0, err
	}
	all, err := packages.Load(&packages.Config{
		Mode: mode, Tests: true, Env: append(os.Environ(), "GOPACKAGESDRIVER=off"),
		ParseFile: func(set *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
			if file != nil && !ours(name) {
				withoutBodies(file)
			}
			return file, err
		},
	}, patterns...)
	if err != nil {
		return 0, err
	}
	unique := map[string]bool{}
	for _, p := range all { // others have errors, as their functions do nothing
		for _, e := range p.Errors {
			unique[e.Error()] = true // a package is here twice if it has tests
		}
	}
	for _, text := range slices.Sorted(maps.Keys(unique)) {
		fmt.Fprintln(out, text)
	}
	fmt.Fprintf(out, "%d packages and tests, %d errors\n", len(all), len(unique))
	return len(unique), nil
}

// foldersOf returns whether a file belongs to the packages themselves.
func foldersOf(patterns []string) (func(file string) bool, error) {
	listed, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles, Tests: true}, patterns...)
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for _, p := range listed {
		for _, file := range p.GoFiles {
			files[file] = true
		}
	}
	return func(file string) bool { return files[file] }, nil
}

// withoutBodies removes what functions do.
func withoutBodies(file *ast.File) {
	for _, declared := range file.Decls {
		if function, ok := declared.(*ast.FuncDecl); ok {
			function.Body = nil
		}
	}
}
