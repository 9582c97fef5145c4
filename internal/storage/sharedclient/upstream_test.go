// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedclient

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What is done here and in services/extensions/storages follows functions of k8s.io/apiserver that cannot be called. A new
// version of Kubernetes that changes one of them fails here: see what is new there, follow it, and write down the new hash.
func TestFunctionsOfKubernetesThatAreFollowedAreTheSame(t *testing.T) {
	for _, f := range []struct{ pkg, file, function, hash string }{
		{"k8s.io/apiserver/pkg/storage/storagebackend/factory", "etcd3.go", "newETCD3Client", "9efab89cdb1687da9ae4c58bb32aff28"},
		{"k8s.io/apiserver/pkg/storage/storagebackend/factory", "etcd3.go", "newETCD3Storage", "9a5649b0ace7c9fa073bbe7cb052d796"},
		{"k8s.io/apiserver/pkg/registry/generic/registry", "storage_factory.go", "StorageWithCacher", "613defc416bb153f7d5041a9994ea9c7"},
	} {
		if got := hashOf(t, f.pkg, f.file, f.function); got != f.hash {
			t.Errorf("%s of %s has changed: its hash is %s, not %s", f.function, f.pkg, got, f.hash)
		}
	}
}

// hashOf returns the first half of a hash of a function without its comments.
func hashOf(t *testing.T, pkg, file, function string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, filepath.Join(strings.TrimSpace(string(dir)), file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range parsed.Decls {
		if declares(declaration, function) {
			var source bytes.Buffer
			if err := printer.Fprint(&source, files, declaration); err != nil {
				t.Fatal(err)
			}
			hash := sha256.Sum256(source.Bytes())
			return hex.EncodeToString(hash[:len(hash)/2])
		}
	}
	t.Fatalf("there is no %s in %s of %s", function, file, pkg)
	return ""
}

// declares reports whether a function is declared, which may be a variable.
func declares(declaration ast.Decl, function string) bool {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		return d.Name.Name == function
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].Name == function {
				return true
			}
		}
	}
	return false
}
