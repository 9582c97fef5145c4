// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind that is added to a module.
type Kind struct {
	// Kind is its name, and Version the version that has it. That need not be given if the module has only one.
	Kind, Version string
	// Plural is the name of the resource. It is derived from Kind if empty.
	Plural string
	// ClusterScoped objects are in no namespace.
	ClusterScoped bool
}

// newKind is what the templates of a kind are rendered with.
type newKind struct {
	APIService
	// OnlyVersion reports that other versions of the group do not have the kind.
	OnlyVersion bool
	// Func is the name of the function that returns the resource.
	Func string
}

// AddKind adds the types of a kind, its resource, its validation and a test. Its author generates code before it compiles.
func (m *Module) AddKind(k Kind) error {
	if k.Version == "" && len(m.Versions) > 1 {
		return fmt.Errorf("the module has the versions %s: choose one with --version", strings.Join(m.Versions, ", "))
	}
	k.Version = cmp.Or(k.Version, m.Versions[0])
	if !slices.Contains(m.Versions, k.Version) {
		return fmt.Errorf("--version %q is none of the versions of the module: %s", k.Version, strings.Join(m.Versions, ", "))
	}
	n := newKind{
		APIService: APIService{
			Module: m.Path, Group: m.Group, Version: k.Version, Kind: k.Kind, Plural: k.Plural, ClusterScoped: k.ClusterScoped,
		},
		OnlyVersion: len(m.Versions) > 1,
	}
	if err := n.validateKind(); err != nil {
		return err
	}
	n.Plural = cmp.Or(n.Plural, plural(n.Singular()))
	if err := n.validatePlural(); err != nil {
		return err
	}
	n.Func = strings.ToLower(k.Kind[:1]) + k.Kind[1:] + "Resource"
	for _, in := range []struct {
		folder string
		names  []string
	}{
		{k.Version, []string{k.Kind, k.Kind + "List", k.Kind + "Spec", k.Kind + "Status"}},
		{".", []string{n.Func, "add" + k.Kind + "ToScheme", "validate" + k.Kind}},
	} {
		declared, err := m.declared(in.folder)
		if err != nil {
			return err
		}
		for _, name := range in.names {
			if declared[name] {
				return fmt.Errorf("the package in %s declares %s already", in.folder, name)
			}
		}
	}
	return m.addKind(n)
}

func (m *Module) addKind(n newKind) error {
	resources, err := m.only("[]apiservice.Resource")
	if err != nil {
		return err
	}
	schemes, err := m.only("[]func(*runtime.Scheme) error")
	if err != nil {
		return err
	}
	m.add(resources, n.Func+"()")
	m.add(schemes, "add"+n.Kind+"ToScheme")
	for file, template := range map[string]string{
		n.Version + "/" + n.Singular() + "_types.go": "types.go",
		n.Singular() + ".go":                         "kind.go",
		n.Singular() + "_test.go":                    "kind_test.go",
		n.Singular() + ".yaml":                       "sample.yaml",
	} {
		if m.written[file], err = render(template, n); err != nil {
			return err
		}
	}
	return nil
}
