// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package partitions says which partition of extensions serves which API groups.
//
// A partition is a set of replicas of extensions that serves the custom resources of some groups, and nothing else. The default partition,
// which has no name, serves all other groups, and apiextensions.k8s.io for all. Every replica of extensions and every aggregator has the
// same [Table]. docs/design has the reasons.
package partitions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
)

// Default is the name of the default partition.
const Default = ""

// Table has the API groups of each partition: names of groups, and patterns of the form *.SUFFIX. The default partition is not in it.
type Table map[string][]string

// Parse reads entries of the form NAME=GROUP[,GROUP...].
func Parse(entries []string) (Table, error) {
	table := Table{}
	for _, entry := range entries {
		name, groups, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not of the form NAME=GROUP[,GROUP...]", entry)
		}
		if _, twice := table[name]; twice {
			return nil, fmt.Errorf("%s is given twice; separate several groups by commas", name)
		}
		table[name] = nil
		if groups != "" {
			table[name] = strings.Split(groups, ",")
		}
	}
	return table, table.Validate()
}

// In returns the table that a list of backends has.
func In(backends map[string]addresses.Service) (Table, error) {
	table := Table{}
	for backend, service := range backends {
		if name, ok := addresses.PartitionOf(backend); ok {
			table[name] = service.Groups
		}
	}
	return table, table.Validate()
}

// Validate returns an error of one line if a group has two partitions, is built in, or is no name of a group, and if a partition has no
// groups.
func (t Table) Validate() error {
	var wrong []string
	names := slices.Sorted(maps.Keys(t))
	for i, name := range names {
		err := addresses.ValidatePartition(name)
		if err == nil {
			err = ValidateGroups(t[name])
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("partition %s: %v", name, err))
			continue
		}
		for _, other := range names[i+1:] {
			if a, b, ok := Overlap(t[name], t[other]); ok {
				wrong = append(wrong, fmt.Sprintf("partitions %s and %s overlap: %s and %s have groups in common", name, other, a, b))
			}
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// ValidateGroups returns an error if patterns name no group, one that is built in, or one twice.
func ValidateGroups(patterns []string) error {
	if err := addresses.ValidatePatterns(patterns); err != nil {
		return err
	}
	for i, pattern := range patterns {
		if slices.Contains(patterns[:i], pattern) {
			return fmt.Errorf("%s is given twice", pattern)
		}
		for _, group := range builtIn {
			if addresses.MatchGroup(pattern, group) {
				return fmt.Errorf("%s has the group %s, which is built in", pattern, group)
			}
		}
	}
	return nil
}

// BuiltIn returns the groups that no partition can have.
func BuiltIn() []string { return slices.Clone(builtIn) }

var builtIn = func() []string {
	groups := map[string]bool{apiextensions.GroupName: true, apiregistration.GroupName: true}
	for _, gv := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		groups[gv.Group] = true
	}
	delete(groups, "")
	return slices.Sorted(maps.Keys(groups))
}()

// Overlap finds a pattern of each list that can match the same group.
func Overlap(a, b []string) (ofA, ofB string, ok bool) {
	for _, x := range a {
		for _, y := range b {
			if x == y || contains(x, y) || contains(y, x) {
				return x, y, true
			}
		}
	}
	return "", "", false
}

// contains reports whether a pattern of the form *.SUFFIX matches all that another pattern does.
func contains(pattern, other string) bool {
	return addresses.IsPattern(pattern) && addresses.MatchGroup(pattern, strings.TrimPrefix(other, "*."))
}

// Of returns the partition that serves an API group, which is Default if no other does.
func (t Table) Of(group string) string {
	for name, patterns := range t {
		if slices.ContainsFunc(patterns, func(pattern string) bool { return addresses.MatchGroup(pattern, group) }) {
			return name
		}
	}
	return Default
}

// String has the same text for the same table.
func (t Table) String() string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		entries = append(entries, name+"="+strings.Join(slices.Sorted(slices.Values(t[name])), ","))
	}
	return strings.Join(entries, " ")
}
