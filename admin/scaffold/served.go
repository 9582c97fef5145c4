// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// servedKind is a kind that the program serves.
type servedKind struct {
	// name is that of its Go type, and plural that of the resource, or empty if the program computes it.
	name, plural string
	// markers say to client-gen what the API can do with its objects.
	markers []string
	// versions serve it: all if empty.
	versions []string
}

// served returns the kinds that the program serves.
func (m *Module) served() (kinds []servedKind) {
	for _, l := range m.literals(func(l *ast.CompositeLit) bool { return l.Type != nil }) {
		of, readOnly := strings.CutPrefix(types.ExprString(l.Type), "apiservice.ReadOnly[*")
		of, stored := strings.CutPrefix(of, "apiservice.Objects[*")
		if !readOnly && !stored {
			continue
		}
		of = strings.TrimSuffix(of, "]")
		k := servedKind{name: of[strings.LastIndex(of, ".")+1:], plural: stringOf(field(l.CompositeLit, "Name"))}
		if versions, ok := field(l.CompositeLit, "Versions").(*ast.CompositeLit); ok {
			for _, v := range versions.Elts {
				k.versions = append(k.versions, stringOf(v))
			}
		}
		k.markers = markers(l.CompositeLit, readOnly)
		kinds = append(kinds, k)
	}
	return kinds
}

// markers returns the comments that client-gen needs for a resource.
func markers(resource *ast.CompositeLit, readOnly bool) []string {
	all := []string{"+genclient"}
	is := func(name string) bool {
		value := field(resource, name)
		return value != nil && types.ExprString(value) == "true"
	}
	if is("ClusterScoped") {
		all = append(all, "+genclient:nonNamespaced")
	}
	switch {
	case readOnly && field(resource, "PollInterval") != nil:
		all = append(all, "+genclient:readonly")
	case readOnly:
		all = append(all, "+genclient:onlyVerbs=get,list")
	case !is("Status") && field(resource, "Subresources") == nil:
		all = append(all, "+genclient:noStatus")
	}
	return all
}

// stringOf returns the text of a literal, or nothing if an expression is none.
func stringOf(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	unquoted, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return unquoted
}

// mark adds markers to the types of kinds in a version that have none, and returns the kinds with a type there.
func (m *Module) mark(version string, kinds []servedKind) (marked []servedKind, err error) {
	files, err := filepath.Glob(filepath.Join(m.folder, version, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !byAuthor(file) {
			continue
		}
		in, err := m.open(file)
		if err != nil {
			return nil, err
		}
		before := token.NoPos // the end of the declaration before
		for _, d := range in.syntax.Decls {
			declaration, ok := d.(*ast.GenDecl)
			if ok && declaration.Tok == token.TYPE {
				marked = append(marked, m.markTypes(in, declaration, before, version, kinds)...)
			}
			before = d.End()
		}
		if filepath.Base(file) == "doc.go" {
			m.nameGroup(in)
		}
		relative, err := filepath.Rel(m.folder, file)
		if err != nil {
			return nil, err
		}
		m.types[relative] = in
	}
	return marked, nil
}

func (m *Module) markTypes(in *source, d *ast.GenDecl, before token.Pos, version string, kinds []servedKind) (marked []servedKind) {
	for _, spec := range d.Specs {
		t := spec.(*ast.TypeSpec)
		at := slices.IndexFunc(kinds, func(k servedKind) bool {
			return k.name == t.Name.Name && (len(k.versions) == 0 || slices.Contains(k.versions, version))
		})
		start := t.Pos()
		if !d.Lparen.IsValid() {
			start = d.Pos()
		}
		if at >= 0 {
			marked = append(marked, kinds[at])
			if !hasMarker(in.syntax, before, start) {
				in.inserted[m.offset(start)] += "// " + strings.Join(kinds[at].markers, "\n// ") + "\n"
			}
		}
		before = t.End()
	}
	return marked
}

var genclient = regexp.MustCompile(`(?m)^//\s*\+genclient\s*$`)

// hasMarker reports whether a comment between two places has a marker of client-gen.
func hasMarker(file *ast.File, from, to token.Pos) bool {
	return slices.ContainsFunc(file.Comments, func(group *ast.CommentGroup) bool {
		return group.Pos() >= from && group.End() <= to && slices.ContainsFunc(group.List, func(c *ast.Comment) bool {
			return genclient.MatchString(c.Text)
		})
	})
}

// nameGroup gives the group a name in Go if the first label of its domain is no identifier, in the doc.go of a version.
func (m *Module) nameGroup(in *source) {
	label, _, _ := strings.Cut(m.Group, ".")
	if token.IsIdentifier(label) || strings.Contains(string(in.text), "// +groupGoName=") {
		return
	}
	name := ""
	for part := range strings.FieldsFuncSeq(label, func(c rune) bool { return c == '-' }) { // a label may have several dashes in a row
		name += strings.ToUpper(part[:1]) + part[1:]
	}
	if !token.IsIdentifier(name) {
		name = "Group" + name
	}
	in.inserted[m.offset(in.syntax.Package)] += "// +groupGoName=" + name + "\n"
}

// byAuthor reports whether an author has written a file, and not a generator, and it is no test.
func byAuthor(file string) bool {
	base := filepath.Base(file)
	return !strings.HasPrefix(base, "zz_generated.") && !strings.HasSuffix(base, "_test.go")
}

func (m *Module) open(file string) (*source, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	syntax, err := parser.ParseFile(m.fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{text, syntax, map[int]string{}}, nil
}

// unregistered returns those of some versions that do not declare AddToScheme and the like, which clients need.
func (m *Module) unregistered(versions []string) (without []string, err error) {
	for _, v := range versions {
		declared := map[string]bool{}
		for relative, in := range m.types {
			if filepath.Dir(relative) == v {
				for _, d := range in.syntax.Decls {
					declare(declared, d)
				}
			}
		}
		if declared["AddToScheme"] {
			for _, name := range []string{"SchemeGroupVersion", "Resource"} {
				if !declared[name] {
					return nil, fmt.Errorf("the package in %s declares AddToScheme and not %s: clients need both", v, name)
				}
			}
			continue
		}
		for _, name := range []string{
			"GroupName", "GroupVersion", "SchemeGroupVersion", "Resource", "SchemeBuilder", "localSchemeBuilder", "Install", "addKnownTypes",
		} {
			if declared[name] {
				return nil, fmt.Errorf("the package in %s declares %s, as register-gen would: rename it, or also declare AddToScheme, "+
					"SchemeGroupVersion and Resource", v, name)
			}
		}
		without = append(without, v)
	}
	return without, nil
}

// declare adds the names that a declaration declares.
func declare(names map[string]bool, declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		names[d.Name.Name] = names[d.Name.Name] || d.Recv == nil
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names[s.Name.Name] = true
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names[name.Name] = true
				}
			}
		}
	}
}
