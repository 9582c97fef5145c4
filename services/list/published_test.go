// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// inPublished lists where a published module names a service besides the aggregator and core, and why.
var inPublished = map[string]string{
	"base/hop/addresses/backendsfile.go: extensions": "the file of --backends-file has a field for it",
	"base/hop/addresses/backendsfile.go: Extensions": "the file of --backends-file has a field for it",
	"base/hop/addresses/partition.go: extensions":    "backends whose names begin with it are its partitions",
}

// The modules that others build on know the protocol between services, which has an aggregator and a core. They do not know which other services
// there are. So no service needs a change there.
func TestPublishedModulesNameNoServices(t *testing.T) {
	var others []string
	for _, name := range Names() {
		if name != Aggregator && name != Core {
			others = append(others, name)
		}
	}
	found := map[string]bool{}
	for _, module := range []string{"base", "apiservice", "proto"} {
		files := 0
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", module), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			short := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..")+string(filepath.Separator)))
			for _, name := range namesIn(file, others) {
				found[short+": "+name] = true
			}
			return nil
		}))
		assert.NotZero(t, files, module)
	}
	for at := range found {
		assert.Contains(t, inPublished, at, "a published module names a service")
	}
	for at := range inPublished {
		assert.True(t, found[at], "nothing is at %s any more", at)
	}
}

// namesIn returns the constants and declarations of a file that name one of the services.
func namesIn(file *ast.File, services []string) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && slices.ContainsFunc(services, func(name string) bool {
				return text == name || text == Program(name) || strings.Contains(text, trust.UserOf(name))
			}) {
				found = append(found, text)
			}
		case *ast.Ident:
			if slices.ContainsFunc(services, func(name string) bool { return strings.EqualFold(n.Name, name) }) {
				found = append(found, n.Name)
			}
		}
		return true
	})
	return found
}
