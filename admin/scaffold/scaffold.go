// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaffold writes the Go module of a new API service: a kind, its validation, tests, and an image. The module builds, passes its
// tests and runs as it is. Generated code is there already, as the generators would write it.
package scaffold

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
)

// APIService says what a module is to serve.
type APIService struct {
	// Name is the name of the service in Tripod, and of its program.
	Name string
	// Module is the path of the Go module. It is GROUP/NAME if empty.
	Module string
	// Group is the API group, such as library.example.com, Version its version, and Kind the kind in it.
	Group, Version, Kind string
	// Plural is the name of the resource. It is derived from Kind if empty.
	Plural string
	// ClusterScoped objects are in no namespace.
	ClusterScoped bool
	Versions      Versions
}

// Versions are the versions of what the module requires.
type Versions struct {
	// APIService is the version of Tripod's module apiservice.
	APIService string
	// Kubernetes is the version of k8s.io/apimachinery and k8s.io/code-generator.
	Kubernetes string
	// KubeOpenAPI is the version of k8s.io/kube-openapi.
	KubeOpenAPI string
}

var (
	camelCase  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	apiVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
)

// Complete fills in what is not given, and returns the first thing that is wrong.
func (s *APIService) Complete() error {
	validateName := func() error { return addresses.ValidateName(s.Name) }
	for _, validate := range []func() error{validateName, s.validateGroup, s.validateVersion, s.validateKind} {
		if err := validate(); err != nil {
			return err
		}
	}
	s.Plural = cmp.Or(s.Plural, plural(s.Singular()))
	s.Module = cmp.Or(s.Module, s.Group+"/"+s.Name)
	if err := s.validatePlural(); err != nil {
		return err
	}
	return s.validateModule()
}

func (s *APIService) validateGroup() error {
	if problems := validation.IsDNS1123Subdomain(s.Group); len(problems) > 0 {
		return fmt.Errorf("--group %q: %s", s.Group, problems[0])
	}
	if !strings.Contains(s.Group, ".") {
		return fmt.Errorf("--group %q has no dot: groups without one are Kubernetes' own, "+
			"so use a domain of yours, such as %s.example.com", s.Group, s.Group)
	}
	return nil
}

func (s *APIService) validateVersion() error {
	if !apiVersion.MatchString(s.Version) {
		return fmt.Errorf("--version %q is not a version such as v1alpha1, v1beta1 or v1", s.Version)
	}
	return nil
}

func (s *APIService) validateKind() error {
	if !camelCase.MatchString(s.Kind) || len(validation.IsDNS1035Label(s.Singular())) > 0 {
		return fmt.Errorf("--kind %q is not in CamelCase, such as ReadingRoom", s.Kind)
	}
	if strings.HasSuffix(s.Kind, "List") {
		return fmt.Errorf("--kind %q ends in List, as only the kinds of lists do: choose another name", s.Kind)
	}
	return nil
}

func (s *APIService) validatePlural() error {
	if problems := validation.IsDNS1035Label(s.Plural); len(problems) > 0 {
		return fmt.Errorf("--plural %q: %s", s.Plural, problems[0])
	}
	return nil
}

func (s *APIService) validateModule() error {
	if err := module.CheckPath(s.Module); err != nil {
		return fmt.Errorf("--module: %w", err)
	}
	return nil
}

var (
	hissing = regexp.MustCompile(`(s|x|z|ch|sh)$`)
	withY   = regexp.MustCompile(`([^aeiou])y$`)
)

// plural returns the regular plural of an English word.
func plural(word string) string {
	if hissing.MatchString(word) {
		return word + "es"
	}
	if withY.MatchString(word) {
		return withY.ReplaceAllString(word, "${1}ies")
	}
	return word + "s"
}

// Singular is the name of one object for kubectl.
func (s *APIService) Singular() string { return strings.ToLower(s.Kind) }

// ModelPackage begins the names of the schemas in OpenAPI: the group backwards, as for custom resources, and the version.
func (s *APIService) ModelPackage() string {
	parts := strings.Split(s.Group, ".")
	slices.Reverse(parts)
	return strings.Join(append(parts, s.Version), ".")
}
