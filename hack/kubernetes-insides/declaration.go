// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
)

var errGone = errors.New("not declared there")

// source returns the text of a declaration of the Go file at path. The name of a method is TYPE.METHOD. The error is errGone if the file
// does not exist or does not declare it.
func source(path, name string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	node := find(parsed, name)
	if node == nil {
		return nil, errGone
	}
	offset := func(pos token.Pos) int { return files.Position(pos).Offset }
	return content[offset(node.Pos()):offset(node.End())], nil
}

// find returns the declaration of a name, or nil.
func find(file *ast.File, name string) ast.Node {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if nameOf(d) == name {
				return withoutDoc(d)
			}
		case *ast.GenDecl:
			if spec := findSpec(d, name); spec != nil {
				return spec
			}
		}
	}
	return nil
}

func nameOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + function.Name.Name
		default:
			return function.Name.Name
		}
	}
}

func withoutDoc(function *ast.FuncDecl) ast.Node {
	bare := *function
	bare.Doc = nil
	return &bare
}

// findSpec returns the part of a declaration that declares a name. If a constant may depend on the ones before it, it returns all of the
// declaration.
func findSpec(group *ast.GenDecl, name string) ast.Node {
	for _, spec := range group.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.Name == name {
				return s
			}
		case *ast.ValueSpec:
			for _, declared := range s.Names {
				if declared.Name != name {
					continue
				}
				if group.Tok == token.CONST && len(s.Values) == 0 {
					return group
				}
				return s
			}
		}
	}
	return nil
}

// digest returns the first half of a SHA-256 hash of the tokens of a declaration. Comments and formatting do not change it.
func digest(declaration []byte) string {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(declaration))
	s.Init(file, declaration, nil, 0)
	hash := sha256.New()
	for {
		_, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return hex.EncodeToString(hash.Sum(nil)[:sha256.Size/2])
		case kind == token.SEMICOLON || text == "":
			text = kind.String()
		}
		fmt.Fprintf(hash, "%s ", text)
	}
}
