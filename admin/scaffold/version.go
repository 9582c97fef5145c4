// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// newVersion is what the templates of a version are rendered with.
type newVersion struct {
	Module, Group string
	// Old is the version whose types are copied, and New the one that they are copied to.
	Old, New string
	Kinds    []versionedKind
	// Carries reports that some field is carried over by way of JSON.
	Carries bool
}

// versionedKind is a kind that both versions have.
type versionedKind struct {
	Name   string
	Fields []convertedField
}

// convertedField is a field of a kind.
type convertedField struct {
	Name string
	// Type is its type in the package of the version, or empty if both versions have the same type.
	Type string
	// Nested reports that the type has others of the package in it, so that Go converts no value of it.
	Nested bool
}

// Title is the new version in the names of functions.
func (v newVersion) Title() string { return "V" + v.New[1:] }

// AddVersion adds a version to the group. It has copies of the types that the resources of the service have, conversions, and a test of
// these. Its author generates code before it compiles. Objects are stored in the version in which they were before.
func (m *Module) AddVersion(name string) error {
	if !apiVersion.MatchString(name) {
		return fmt.Errorf("%q is not a version such as v1alpha1, v1beta1 or v1", name)
	}
	if slices.Contains(m.Versions, name) {
		return fmt.Errorf("the service has the version %s already", name)
	}
	old, kinds := m.kinds()
	if len(old) != 1 {
		return fmt.Errorf("the resources in all versions have types of the packages %q, and not of one: tripod new can only change a "+
			"program that looks like the one it wrote. Add the code by hand", old)
	}
	v := newVersion{Module: m.Path, Group: m.Group, Old: old[0], New: name}
	if err := m.copyTypes(v.Old, v.New); err != nil {
		return err
	}
	if err := m.fields(&v, kinds); err != nil {
		return err
	}
	if err := m.serve(v); err != nil {
		return err
	}
	var err error
	if m.written[name+".go"], err = render("version.go", v); err != nil {
		return err
	}
	const test = "versions_test.go"
	if _, err := os.Stat(filepath.Join(m.folder, test)); err == nil { // it tests all versions
		return nil
	}
	m.written[test], err = render("version_test.go", v)
	return err
}

// kinds returns the kinds of the resources that all versions of the group serve, and the packages of their types.
func (m *Module) kinds() (packages, kinds []string) {
	for _, l := range m.literals(func(l *ast.CompositeLit) bool {
		return l.Type != nil && strings.HasPrefix(types.ExprString(l.Type), "apiservice.Objects[*") && field(l, "Versions") == nil
	}) {
		of := strings.TrimSuffix(strings.TrimPrefix(types.ExprString(l.Type), "apiservice.Objects[*"), "]")
		in, kind, ok := strings.Cut(of, ".")
		if !ok {
			in, kind = "main", of
		}
		packages, kinds = append(packages, in), append(kinds, kind)
	}
	slices.Sort(packages)
	slices.Sort(kinds)
	return slices.Compact(packages), slices.Compact(kinds)
}

// field returns the value of a field in a composite literal, or nil.
func field(l *ast.CompositeLit, name string) ast.Expr {
	for _, element := range l.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok && types.ExprString(pair.Key) == name {
			return pair.Value
		}
	}
	return nil
}

// copyTypes copies the files of a version, but for generated ones and tests.
func (m *Module) copyTypes(old, name string) error {
	files, err := filepath.Glob(filepath.Join(m.folder, old, "*.go"))
	if err != nil {
		return err
	}
	word := regexp.MustCompile(`\b` + old + `\b`)
	for _, file := range files {
		base := filepath.Base(file)
		if strings.HasPrefix(base, "zz_generated.") || strings.HasSuffix(base, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, file, text, parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		head := text[:fset.Position(syntax.Name.End()).Offset] // comments of the package, and its name
		m.written[path.Join(name, base)] = append(word.ReplaceAll(head, []byte(name)), text[len(head):]...)
	}
	return nil
}

// fields finds out how the kinds of a version are converted to those of another that has the same types.
func (m *Module) fields(v *newVersion, kinds []string) error {
	structs := map[string]*ast.StructType{}
	for file, text := range m.written {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			if t, ok := n.(*ast.TypeSpec); ok {
				structs[t.Name.Name], _ = t.Type.(*ast.StructType)
			}
			return true
		})
	}
	for _, name := range kinds {
		if structs[name] == nil {
			return fmt.Errorf("the package %s has no type %s", v.Old, name)
		}
		kind := versionedKind{Name: name}
		for _, f := range structs[name].Fields.List {
			for _, fieldName := range f.Names {
				c := convertedField{Name: fieldName.Name}
				if named, ok := f.Type.(*ast.Ident); ok && structs[named.Name] != nil {
					c.Type, c.Nested = named.Name, uses(structs[named.Name], structs)
				} else {
					c.Nested = uses(f.Type, structs)
				}
				v.Carries = v.Carries || c.Nested
				kind.Fields = append(kind.Fields, c)
			}
		}
		v.Kinds = append(v.Kinds, kind)
	}
	return nil
}

// uses reports whether an expression has a type of the package in it.
func uses(expression ast.Node, declared map[string]*ast.StructType) (found bool) {
	ast.Inspect(expression, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.Field: // not its name
			found = found || uses(e.Type, declared)
			return false
		case *ast.SelectorExpr: // of another package
			return false
		case *ast.Ident:
			if _, ok := declared[e.Name]; ok {
				found = true
			}
		}
		return true
	})
	return found
}

// serve makes the group serve a version.
func (m *Module) serve(v newVersion) error {
	groups := m.literals(func(l *ast.CompositeLit) bool {
		versions, ok := field(l, "Versions").(*ast.CompositeLit)
		return ok && field(l, "Resources") != nil && types.ExprString(versions.Type) == "[]string"
	})
	if len(groups) != 1 {
		return errByHand("apiservice.Group{..., Versions: []string{...}, Resources: ...}", len(groups))
	}
	group := groups[0]
	versions := field(group.CompositeLit, "Versions").(*ast.CompositeLit)
	before := slices.IndexFunc(versions.Elts, func(e ast.Expr) bool {
		return version.CompareKubeAwareVersionStrings(v.New, strings.Trim(types.ExprString(e), `"`)) > 0
	})
	if before < 0 {
		m.add(list{versions, group.in}, strconv.Quote(v.New))
	} else {
		group.in.inserted[m.offset(versions.Elts[before].Pos())] += strconv.Quote(v.New) + ", "
		if before == 0 && field(group.CompositeLit, "StorageVersion") == nil {
			first := types.ExprString(versions.Elts[0])
			group.in.inserted[m.offset(versions.End())] += ",\nStorageVersion: " + first
		}
	}
	schemes, err := m.only("[]func(*runtime.Scheme) error")
	if err != nil {
		return err
	}
	m.add(schemes, "add"+v.Title()+"ToScheme")
	return m.generate(v)
}

// generate adds a version to the commands that generate code.
func (m *Module) generate(v newVersion) error {
	lines := regexp.MustCompile(`(?m)^//go:generate .* \./` + v.Old + `(?: |$)`)
	found := 0
	for _, in := range m.sources {
		for _, at := range lines.FindAllIndex(in.text, -1) {
			end := at[0] + cmp.Or(max(0, bytes.IndexByte(in.text[at[0]:], '\n')), len(in.text)-at[0])
			in.inserted[end] += " ./" + v.New
			found++
		}
	}
	if found == 0 {
		return fmt.Errorf("the program has no line //go:generate ... ./%s: tripod new can only change a program that looks like "+
			"the one it wrote. Add the code by hand", v.Old)
	}
	return nil
}

// literals returns the composite literals of the main package for which a function returns true.
func (m *Module) literals(matches func(*ast.CompositeLit) bool) (found []list) {
	for _, in := range m.sources {
		ast.Inspect(in.syntax, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok && matches(literal) {
				found = append(found, list{literal, in})
			}
			return true
		})
	}
	return found
}
