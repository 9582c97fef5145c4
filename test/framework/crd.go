// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"fmt"
	"strings"
)

// CRD is the manifest of a CustomResourceDefinition. CRD{Kind: "Widget"} defines widgets.example.com, whose objects are in namespaces and
// may have any fields.
type CRD struct {
	// Kind is the singular, such as Widget. The plural adds an s.
	Kind string
	// Group is example.com if empty.
	Group string
	// ClusterScoped defines objects outside of namespaces.
	ClusterScoped bool
	// Schema is the schema of v1, in YAML's flow style.
	Schema string
	// Subresources are the subresources of v1, in YAML's flow style.
	Subresources string
	// MoreVersions follow v1, each in YAML's flow style.
	MoreVersions []string
}

// Any is the schema of objects with any fields.
const Any = "{type: object, x-kubernetes-preserve-unknown-fields: true}"

// Data is the schema of objects with the data of a ConfigMap.
const Data = "{type: object, properties: {data: {type: object, additionalProperties: {type: string}}}}"

// String returns the manifest.
func (c CRD) String() string {
	group, scope, singular := cmp.Or(c.Group, "example.com"), "Namespaced", strings.ToLower(c.Kind)
	if c.ClusterScoped {
		scope = "Cluster"
	}
	versions := append([]string{fmt.Sprintf("{name: v1, served: true, storage: true, subresources: %s, schema: {openAPIV3Schema: %s}}",
		cmp.Or(c.Subresources, "null"), cmp.Or(c.Schema, Any))}, c.MoreVersions...)
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.%[2]s}
spec:
  group: %[2]s
  scope: %[3]s
  names: {plural: %[1]ss, singular: %[1]s, kind: %[4]s, listKind: %[4]sList}
  versions:
  - %[5]s
`, singular, group, scope, c.Kind, strings.Join(versions, "\n  - "))
}
