// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// Resource are CustomResourceDefinitions.
var Resource = apiextensions.Resource("customresourcedefinitions")

// Partition is one of the parts that serve custom resources.
type Partition struct {
	// Table has the API groups of all partitions.
	Table partitions.Table
	Name  string
}

// IsDefault reports whether the partition is the default one.
func (p Partition) IsDefault() bool { return p.Name == partitions.Default }

// HasGroup reports whether the partition serves an API group.
func (p Partition) HasGroup(group string) bool { return p.Table.Of(group) == p.Name }

// Has reports whether the partition serves the custom resources of the definition with a name.
func (p Partition) Has(name string) bool {
	_, group, _ := strings.Cut(name, ".")
	return p.HasGroup(group)
}
