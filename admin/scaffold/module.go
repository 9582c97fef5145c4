// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/version"
)

// Module is an API service that [APIService.Write] has written, and that its author has changed since.
type Module struct {
	// Path is that of the Go module.
	Path string
	// Group is the API group, and Versions are its versions, the most stable first.
	Group    string
	Versions []string

	folder string
	fset   *token.FileSet
	// sources are the files of the main package without tests, by their names.
	sources map[string]*source
	// types are files of versions, by their paths in the module, once something changes types.
	types map[string]*source
	// written are the new contents of files, by their paths in the module.
	written map[string][]byte
}

// source is a Go file.
type source struct {
	text   []byte
	syntax *ast.File
	// inserted is what goes before an offset.
	inserted map[int]string
}

var groupName = regexp.MustCompile(`(?m)^// \+groupName=(\S+)$`)

// Open reads a module.
func Open(folder string) (*Module, error) {
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no go.mod: go to the folder of an API service, or name it with --directory", folder)
	} else if err != nil {
		return nil, err
	}
	m := &Module{
		folder: folder, Path: modfile.ModulePath(text), fset: token.NewFileSet(), sources: map[string]*source{}, types: map[string]*source{},
		written: map[string][]byte{},
	}
	if m.Path == "" {
		return nil, fmt.Errorf("go.mod in %s names no module", folder)
	}
	docs, err := filepath.Glob(filepath.Join(folder, "v*", "doc.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range docs {
		doc, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(filepath.Dir(file))
		if group := groupName.FindSubmatch(doc); group != nil && apiVersion.MatchString(name) {
			if problems := validation.IsDNS1123Subdomain(string(group[1])); len(problems) > 0 {
				return nil, fmt.Errorf("%s: +groupName=%s names no API group: %s", file, group[1], problems[0])
			}
			m.Group, m.Versions = string(group[1]), append(m.Versions, name)
		}
	}
	if len(m.Versions) == 0 {
		return nil, fmt.Errorf("%s has no folder such as v1alpha1 whose doc.go has the line // +groupName=GROUP: "+
			"tripod new api-service writes one", folder)
	}
	slices.SortFunc(m.Versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return m, m.parse()
}

// parse reads the main package.
func (m *Module) parse() error {
	files, err := filepath.Glob(filepath.Join(m.folder, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if m.sources[filepath.Base(file)], err = m.open(file); err != nil {
			return err
		}
	}
	return nil
}

// list is a composite literal of a file.
type list struct {
	*ast.CompositeLit
	in *source
}

// errByHand is that of a module which does not look as this package writes it.
func errByHand(what string, found int) error {
	return fmt.Errorf("the program has %d literals %s, and not one: tripod new can only change a program that looks like the one it wrote. "+
		"Add the code by hand", found, what)
}

// only returns the only literal of a type.
func (m *Module) only(ofType string) (list, error) {
	found := m.literals(func(l *ast.CompositeLit) bool { return l.Type != nil && types.ExprString(l.Type) == ofType })
	if len(found) != 1 {
		return list{}, errByHand(ofType+"{...}", len(found))
	}
	return found[0], nil
}

func (m *Module) offset(pos token.Pos) int { return m.fset.Position(pos).Offset }

// add inserts an element at the end of a literal.
func (m *Module) add(to list, element string) {
	end := m.offset(to.Rbrace)
	if len(to.Elts) == 0 {
		to.in.inserted[end] += element
		return
	}
	last := m.offset(to.Elts[len(to.Elts)-1].End())
	if bytes.Contains(to.in.text[last:end], []byte(",")) {
		to.in.inserted[end] += element + ",\n"
	} else {
		to.in.inserted[last] += ", " + element
	}
}

// declared returns the names that a Go package in a folder of the module declares.
func (m *Module) declared(folder string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(m.folder, folder, "*.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range syntax.Decls {
			declare(names, declaration)
		}
	}
	return names, nil
}

// Save writes all changes, or none if an error is returned.
func (m *Module) Save() error {
	_, err := m.save()
	return err
}

// save is Save. It returns a function that takes all changes back.
func (m *Module) save() (undo func() error, err error) {
	changed, before := map[string][]byte{}, map[string][]byte{}
	for _, sources := range []map[string]*source{m.sources, m.types} {
		for name, in := range sources {
			if len(in.inserted) == 0 {
				continue
			}
			if changed[name], err = format.Source(in.changed()); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			before[name] = in.text
		}
	}
	var steps []func() error
	takeBack := func() (err error) {
		for _, step := range slices.Backward(steps) {
			err = errors.Join(err, step())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, takeBack())
		}
	}()
	for name, content := range m.written {
		path := filepath.Join(m.folder, filepath.FromSlash(name))
		if made, err := makeFolder(filepath.Dir(path)); err != nil {
			return nil, err
		} else if made {
			steps = append(steps, func() error { return os.Remove(filepath.Dir(path)) })
		}
		if err := create(path, content); err != nil {
			return nil, err
		}
		steps = append(steps, func() error { return os.Remove(path) })
	}
	for name, content := range changed {
		path := filepath.Join(m.folder, name)
		if err := replace(path, content); err != nil {
			return nil, err
		}
		steps = append(steps, func() error { return replace(path, before[name]) })
	}
	return takeBack, nil
}

func (s *source) changed() []byte {
	var out bytes.Buffer
	for i := range len(s.text) + 1 {
		out.WriteString(s.inserted[i])
		if i < len(s.text) {
			out.WriteByte(s.text[i])
		}
	}
	return out.Bytes()
}

func makeFolder(path string) (bool, error) {
	err := os.Mkdir(path, 0o777) //nolint:gosec // as the user's umask says
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// create writes a file that does not exist.
func create(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // as the user's umask says
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already", path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(path) //nolint:errcheck // the first error matters
	}
	return err
}

// replace writes a file that exists, at once.
func replace(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temporary := path + ".new"
	if err := create(temporary, content); err != nil {
		return err
	}
	err = errors.Join(os.Chmod(temporary, info.Mode().Perm()), os.Rename(temporary, path))
	if err != nil {
		os.Remove(temporary) //nolint:errcheck // the first error matters
	}
	return err
}
