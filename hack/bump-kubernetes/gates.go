// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// gateFiles are the files with the feature gates of kube-apiserver, by module.
var gateFiles = map[string]string{
	kubernetes:                       "pkg/features/kube_features.go",
	"k8s.io/apiserver":               "pkg/features/kube_features.go",
	"k8s.io/apiextensions-apiserver": "pkg/features/kube_features.go",
	"k8s.io/client-go":               "features/known_features.go",
}

// gates say how feature gates are by default in the newest version that they name, such as "Beta, true".
type gates map[string]string

func lookAtGates() (gates, error) {
	all := gates{}
	for module, file := range gateFiles {
		dir, err := dirOf(module)
		if err != nil {
			return nil, err
		}
		some, err := readGates(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// readGates returns the gates of that Go file: maps from a feature to a list with a specification for each version, the newest last.
func readGates(path string) (gates, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	all := gates{}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || !isGates(literal.Type) {
			return true
		}
		for _, element := range literal.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				if specs, ok := pair.Value.(*ast.CompositeLit); ok && len(specs.Elts) > 0 {
					all[nameOf(pair.Key)] = defaultOf(specs.Elts[len(specs.Elts)-1])
				}
			}
		}
		return false
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no feature gates", path)
	}
	return all, nil
}

// isGates reports whether a type is a map to VersionedSpecs.
func isGates(of ast.Expr) bool {
	m, ok := of.(*ast.MapType)
	return ok && nameOf(m.Value) == "VersionedSpecs"
}

// nameOf returns the name of NAME or PACKAGE.NAME.
func nameOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// defaultOf returns what a specification says.
func defaultOf(spec ast.Expr) string {
	fields, ok := spec.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	values := map[string]string{}
	for _, element := range fields.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			values[nameOf(pair.Key)] = nameOf(pair.Value)
		}
	}
	text := values["PreRelease"] + ", " + values["Default"]
	if values["LockToDefault"] == "true" {
		text += ", locked"
	}
	return text
}

// differenceOfGates lists the gates that are new, gone, or other than before.
func differenceOfGates(before, after gates) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was, known := before[name]
		switch {
		case !known:
			fmt.Fprintf(&b, "\n   new:  %s (%s)", name, after[name])
		case was != after[name]:
			fmt.Fprintf(&b, "\n   now:  %s (%s, before: %s)", name, after[name], was)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, known := after[name]; !known {
			fmt.Fprintf(&b, "\n   gone: %s (%s)", name, before[name])
		}
	}
	if b.Len() == 0 {
		return " the same.\n"
	}
	return b.String() + "\n"
}
