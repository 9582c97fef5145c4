// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// partitionPrefix begins the name of a backend that is a partition of extensions.
const partitionPrefix = extensions + "-"

// anySubdomain begins a pattern of API groups.
const anySubdomain = "*."

// PartitionBackend returns the name of the backend that is a partition of extensions.
func PartitionBackend(partition string) string { return partitionPrefix + partition }

// PartitionOf returns the partition of extensions that a backend is. It returns false for another backend.
func PartitionOf(backend string) (partition string, ok bool) {
	return strings.CutPrefix(backend, partitionPrefix)
}

// ValidateBackend returns an error if a backend beside core and extensions cannot have a name: neither is it a partition of extensions, nor
// the name of an additional API service.
func ValidateBackend(name string) error {
	if partition, ok := PartitionOf(name); ok {
		return ValidatePartition(partition)
	}
	return ValidateName(name)
}

// ValidatePartition returns an error if a partition cannot have a name.
func ValidatePartition(name string) error {
	if wrong := validation.IsDNS1035Label(PartitionBackend(name)); name == "" || len(wrong) > 0 {
		return fmt.Errorf("%q is not the name of a partition: use 1 to %d lower-case letters, digits and hyphens, and no hyphen at the end",
			name, validation.DNS1035LabelMaxLength-len(partitionPrefix))
	}
	return nil
}

// ValidatePatterns returns an error if the API groups of a partition are not names of groups, or of the form *.SUFFIX.
func ValidatePatterns(patterns []string) error {
	if len(patterns) == 0 {
		return errors.New("name at least one API group")
	}
	for _, pattern := range patterns {
		if pattern == "*" || pattern == anySubdomain {
			return fmt.Errorf("%q matches every API group: give groups, or *.SUFFIX", pattern)
		}
		if wrong := validation.IsDNS1123Subdomain(strings.TrimPrefix(pattern, anySubdomain)); len(wrong) > 0 {
			return fmt.Errorf("%q is not the name of an API group, nor of the form *.SUFFIX: %s", pattern, strings.Join(wrong, ", "))
		}
	}
	return nil
}

// IsPattern reports whether an entry of a list of groups stands for all groups below a suffix, and not for one group.
func IsPattern(entry string) bool { return strings.HasPrefix(entry, "*") }

// MatchGroup reports whether an API group is one that a pattern names. *.SUFFIX stands for all groups below SUFFIX, and not for SUFFIX.
func MatchGroup(pattern, group string) bool {
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(group, suffix) && len(group) > len(suffix)
	}
	return group == pattern
}

// ValidateGroupsOf returns an error if the backend cannot serve one of its groups.
func (s Service) ValidateGroupsOf(backend string) error {
	if _, ok := PartitionOf(backend); ok {
		return ValidatePatterns(s.Groups)
	}
	return ValidateGroups(s.Groups)
}
