// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"fmt"
	"slices"
	"strings"
)

// What follows are the names that the generators of Kubernetes give, so that the files that this package writes are those that they would
// write.

// metaPackage is the package of ObjectMeta.
const metaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

// TypesPackage is the package of the types.
func (s *APIService) TypesPackage() string { return s.Module + "/" + s.Version }

// Meta is the name under which the package of the types imports that of ObjectMeta: its last folder, or its last two if the package
// itself has that name.
func (s *APIService) Meta() string {
	if s.Version == "v1" {
		return "metav1"
	}
	return "v1"
}

// SchemaPrefix begins the names of the functions that return schemas. openapi-gen joins the last four folders of the package.
func (s *APIService) SchemaPrefix() string {
	folders := strings.Split(s.TypesPackage(), "/")
	folders = folders[max(0, len(folders)-4):]
	return "schema_" + strings.NewReplacer("-", "_", ".", "").Replace(strings.Join(folders, "_"))
}

// Dependencies returns the types that a schema refers to as a list in Go, as openapi-gen sorts them: by packages and names. A type is
// given by its name after that of the kind, or, with meta. before it, by its name in the package of ObjectMeta.
func (s *APIService) Dependencies(types ...string) string {
	code := map[string]string{} // by package and name
	var names []string
	for _, t := range types {
		name := s.TypesPackage() + "." + s.Kind + t
		code[name] = s.Version + "." + s.Kind + t + "{}.OpenAPIModelName()"
		if inMeta, ok := strings.CutPrefix(t, "meta."); ok {
			name = metaPackage + "." + inMeta
			code[name] = fmt.Sprintf("%q", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	var list []string
	for _, name := range names {
		list = append(list, code[name])
	}
	return strings.Join(list, ", ")
}
