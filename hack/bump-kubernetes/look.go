// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// state is what Tripod takes from a version of Kubernetes.
type state struct {
	version string
	// etcd is the version of etcd.
	etcd string
	// plugins are the admission plugins, by the names of their packages.
	plugins []string
	// flags are the flags of kube-apiserver.
	flags []string
	gates gates
	// ahead are the modules of which Tripod requires a newer version than Kubernetes.
	ahead []string
}

func look() (state, error) {
	var s state
	ours, err := readRequirements("go.mod")
	if err != nil {
		return s, err
	}
	s.version, s.etcd = ours[kubernetes], ours[etcdServer]
	dir, err := dirOfKubernetes()
	if err != nil {
		return s, err
	}
	if s.plugins, err = readPlugins(filepath.Join(dir, "pkg/kubeapiserver/options/plugins.go")); err != nil {
		return s, err
	}
	if s.gates, err = lookAtGates(); err != nil {
		return s, err
	}
	theirs, err := readRequirements(filepath.Join(dir, "go.mod"))
	if err != nil {
		return s, err
	}
	s.ahead = ahead(ours, theirs)
	page, err := os.ReadFile("docs/flags.md")
	if err != nil {
		return s, err
	}
	s.flags = flagsIn(string(page))
	return s, nil
}

func dirOfKubernetes() (string, error) { return dirOf(kubernetes) }

// dirOf returns the folder with the source of a module, and downloads it if necessary.
func dirOf(module string) (string, error) {
	text, err := output("go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &downloaded); err != nil {
		return "", err
	}
	return downloaded.Dir, nil
}

const orderedPlugins = "AllOrderedPlugins"

// readPlugins returns the admission plugins that kube-apiserver lists in that Go file: a list of PACKAGE.PluginName.
func readPlugins(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != orderedPlugins {
			return true
		}
		ast.Inspect(spec, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if ok {
				if pkg, ok := selector.X.(*ast.Ident); ok {
					names = append(names, pkg.Name)
				}
			}
			return !ok
		})
		return false
	})
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no list %s", path, orderedPlugins)
	}
	return names, nil
}

// flagRow matches a row of the table of flags.
var flagRow = regexp.MustCompile("^\\| `(--[a-z0-9-]+)` ")

// flagsIn returns the flags in the generated tables of docs/flags.md.
func flagsIn(page string) []string {
	var flags []string
	for line := range strings.Lines(page) {
		if row := flagRow.FindStringSubmatch(line); row != nil {
			flags = append(flags, row[1])
		}
	}
	return flags
}
