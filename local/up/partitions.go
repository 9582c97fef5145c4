// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/local/replicas"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

const (
	partitionFlag            = "--extensions-partition"
	partitionEtcdServersFlag = "--extensions-partition-etcd-servers"
)

// partitions returns the partitions of extensions.
func (o *Options) partitions() (partitions.Table, error) {
	table, err := partitions.Parse(o.Partitions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", partitionFlag, err)
	}
	return table, nil
}

func (o *Options) validatePartitions() error {
	table, err := o.partitions()
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, entry := range o.PartitionEtcdServers {
		name, servers, _ := strings.Cut(entry, "=")
		switch _, known := table[name]; {
		case servers == "":
			return fmt.Errorf("%s: %q is not of the form NAME=URL[,URL...]", partitionEtcdServersFlag, entry)
		case !known:
			return fmt.Errorf("%s: no %s has the name %q", partitionEtcdServersFlag, partitionFlag, name)
		case given[name]:
			return fmt.Errorf("%s: %s is given twice; separate several URLs by commas", partitionEtcdServersFlag, name)
		}
		given[name] = true
		for server := range strings.SplitSeq(servers, ",") {
			if err := validateEtcdServer(server); err != nil {
				return fmt.Errorf("%s: %w", partitionEtcdServersFlag, err)
			}
		}
	}
	return nil
}

// partitionEtcds returns the etcds that partitions have of their own, by partition.
func (o *Options) partitionEtcds() map[string][]string {
	etcds := map[string][]string{}
	for _, entry := range o.PartitionEtcdServers {
		name, servers, _ := strings.Cut(entry, "=")
		etcds[name] = strings.Split(servers, ",")
	}
	return etcds
}

// divided returns the backends that are partitions of extensions, and the API groups of each.
func (o *Options) divided() map[string][]string {
	table, _ := o.partitions() // it is valid
	backends := map[string][]string{}
	for name, groups := range table {
		backends[addresses.PartitionBackend(name)] = groups
	}
	return backends
}

// beside returns the names of all backends beside core and extensions.
func (o *Options) beside() []string {
	return append(slices.Sorted(maps.Keys(o.divided())), o.additionalServices()...)
}

// programs returns the programs of all backends beside core and extensions.
func (o *Options) programs() (map[string]string, error) {
	programs, err := o.additionalPrograms()
	if err != nil {
		return nil, err
	}
	divided := o.divided()
	if len(divided) == 0 {
		return programs, nil
	}
	extensions, err := replicas.Binary(list.Program(list.Extensions))
	for name := range divided {
		programs[name] = extensions
	}
	return programs, err
}

// partition returns the flags of a replica of a partition.
func (a *arguments) partition(service, replica string) []string {
	name, _ := addresses.PartitionOf(service)
	args := append(a.shared(service, replica), "--partition="+name)
	if servers := a.options.partitionEtcds()[name]; len(servers) > 0 {
		for _, group := range a.options.divided()[service] {
			args = append(args, "--group-etcd-servers="+group+"="+strings.Join(servers, ","))
		}
		// The files of the embedded etcd are for that only.
		args = append(args, "--group-etcd-cafile="+a.options.EtcdCAFile,
			"--group-etcd-certfile="+a.options.EtcdCertFile, "--group-etcd-keyfile="+a.options.EtcdKeyFile)
	}
	return append(args, forReplica(replica, a.options.ExtensionsArgs)...)
}
