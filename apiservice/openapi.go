// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"fmt"
	"strings"

	kubernetesopenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// definitions returns the schemas of the service, and those of the types of k8s.io/apimachinery. The author need not generate the latter:
// without a flag for that, openapi-gen refers to them by their names in Go instead of OpenAPI.
func (s *Service) definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := kubernetesopenapi.GetOpenAPIDefinitions(ref)
	rename := func(name string) string {
		if model := util.ToRESTFriendlyName(name); strings.Contains(name, "/") && isIn(all, model) {
			return model
		}
		return name
	}
	for name, definition := range s.Definitions(func(name string) spec.Ref { return ref(rename(name)) }) {
		for i, dependency := range definition.Dependencies {
			definition.Dependencies[i] = rename(dependency)
		}
		all[rename(name)] = definition
	}
	return all
}

func isIn[T any](all map[string]T, name string) bool {
	_, ok := all[name]
	return ok
}

// validateDefinitions returns an error if a kind has no schema.
func (t *types) validateDefinitions(s *Service) error {
	definitions := s.definitions(func(string) spec.Ref { return spec.Ref{} })
	for gvk := range t.versioned.AllKnownTypes() {
		if !t.serves(s)(gvk.GroupVersion()) {
			continue
		}
		example, err := t.versioned.New(gvk)
		if err != nil {
			return err
		}
		if !isIn(definitions, util.GetCanonicalTypeName(example)) {
			return fmt.Errorf("Definitions has no schema of %T: generate it with openapi-gen", example)
		}
	}
	return nil
}
