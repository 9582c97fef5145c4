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

// Scope is what one partition serves.
type Scope struct {
	Table partitions.Table
	// Partition is the name of the partition.
	Partition string
}

// IsDefault reports whether the partition is the default one.
func (s Scope) IsDefault() bool { return s.Partition == partitions.Default }

// HasGroup reports whether the partition serves an API group.
func (s Scope) HasGroup(group string) bool { return s.Table.Of(group) == s.Partition }

// Has reports whether the partition serves the custom resources of the definition with a name.
func (s Scope) Has(name string) bool {
	_, group, _ := strings.Cut(name, ".")
	return s.HasGroup(group)
}
