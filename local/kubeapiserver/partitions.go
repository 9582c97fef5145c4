// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"maps"
	"slices"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/local/replicas"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// partitionFlag divides extensions by API group. It is the only flag that kube-apiserver does not have.
const partitionFlag = "extensions-partition"

// addPartitionFlag adds the flag in a section of its own.
func addPartitionFlag(flags *cliflag.NamedFlagSets, divided *[]string) {
	flags.FlagSet("Tripod").StringArrayVar(divided, partitionFlag, nil,
		"Partition of extensions with a process of its own, as in --extensions-partition=big=*.example.com,example.org: its name, and its "+
			"API groups. Can be repeated. kube-apiserver does not have this flag.")
}

// parsePartitions reads the values of the flag.
func parsePartitions(divided []string) (partitions.Table, error) {
	groups, err := partitions.Parse(divided)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", partitionFlag, err)
	}
	return groups, nil
}

// partitions returns the services that are partitions of extensions, with their API groups.
func (s *plan) partitions() map[serviceName][]string {
	divided := map[serviceName][]string{}
	for name, groups := range s.groups {
		divided[serviceName(addresses.PartitionBackend(name))] = groups
	}
	return divided
}

// services returns the processes that together are kube-apiserver, in the order in which they start.
func (s *plan) services() []serviceName {
	return slices.Concat([]serviceName{core, extensions}, slices.Sorted(maps.Keys(s.partitions())), []serviceName{aggregator})
}

// programs returns the programs of the partitions.
func (s *plan) programs() (map[string]string, error) {
	path, err := replicas.Binary(list.Program(list.Extensions))
	programs := map[string]string{}
	for name := range s.partitions() {
		programs[string(name)] = path
	}
	return programs, err
}

// partitionArguments returns the flags of a service that say that it is a partition, if it is one. It finds its groups in the file of
// backends.
func partitionArguments(name serviceName) []string {
	partition, ok := addresses.PartitionOf(string(name))
	if !ok {
		return nil
	}
	return []string{"--partition=" + partition}
}
