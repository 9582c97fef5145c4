// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

const (
	// maxStaticReplicas keeps the ports of the replicas within a hundred.
	maxStaticReplicas = 9
	// portStep is between the ports of two replicas of a service.
	portStep = 10
	// maxStaticPartitions keeps the ports and the users of partitions apart from those of others.
	maxStaticPartitions = 10
	// firstPartitionPort is the first port of the first partition. Each partition has the ports of its replicas in a row.
	firstPartitionPort = 7530
	partitionPorts     = 3
)

// localPorts are the ports of 127.0.0.1 of a static pod. On a node, nothing that kubeadm starts has them.
type localPorts struct{ serving, grpc, probes int32 }

// firstPorts are the ports of the first replica of each service. A single aggregator has kube-apiserver's port alone.
var firstPorts = map[serviceName]localPorts{
	core:       {7440, 7441, 7442},
	extensions: {7443, 7444, 7445},
	aggregator: {serving: 7446, probes: 7447},
}

// node says what runs on a node.
type node struct {
	// services are in the order of their start.
	services []serviceName
	// groups are the API groups of each partition of extensions, in the order in which they were given. So the ports of a partition stay if
	// another one is added.
	groups []partitionGroups
	count  map[serviceName]int
}

// partitionGroups are the API groups of a partition, separated by commas.
type partitionGroups struct {
	service serviceName
	groups  string
}

// newNode returns what runs on a node that has these partitions of extensions, of the form NAME=GROUP[,GROUP...], and numbers of replicas.
func newNode(divided []string, replicas map[string]int) (*node, error) {
	on := &node{services: []serviceName{core, extensions}, count: map[serviceName]int{}}
	if err := on.divide(divided); err != nil {
		return nil, fmt.Errorf("partitions: %w", err)
	}
	on.services = append(on.services, aggregator)
	for _, service := range on.services {
		on.count[service] = 1
	}
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		if err := on.check("replicas", name); err != nil {
			return nil, err
		}
		count := replicas[name]
		if count < 1 || count > maxStaticReplicas {
			return nil, fmt.Errorf("replicas: %s has %d, want 1 to %d", name, count, maxStaticReplicas)
		}
		on.count[serviceName(name)] = count
	}
	return on, nil
}

// ofReplica matches the end of the name of a replica.
var ofReplica = regexp.MustCompile("(^|-)[0-9]+$")

func (n *node) divide(divided []string) error {
	if _, err := partitions.Parse(divided); err != nil {
		return err
	}
	if len(divided) > maxStaticPartitions {
		return fmt.Errorf("%d are given, and a node has at most %d", len(divided), maxStaticPartitions)
	}
	for _, entry := range divided {
		name, groups, _ := strings.Cut(entry, "=")
		if ofReplica.MatchString(name) {
			return fmt.Errorf("%q ends with a number, as the name of the pod of a replica does: choose another name", name)
		}
		service := serviceName(addresses.PartitionBackend(name))
		n.services = append(n.services, service)
		n.groups = append(n.groups, partitionGroups{service, groups})
	}
	return nil
}

// check returns an error if a flag names a service that the node does not have.
func (n *node) check(flag, name string) error {
	if !slices.Contains(n.services, serviceName(name)) {
		return fmt.Errorf("%s: %q is none of %s", flag, name, n.names())
	}
	return nil
}

// names returns the names of all services, for people.
func (n *node) names() string {
	var names []string
	for _, service := range n.services {
		names = append(names, string(service))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// partitions returns the names of the services that are partitions of extensions.
func (n *node) partitions() []string {
	var names []string
	for _, partition := range n.groups {
		names = append(names, string(partition.service))
	}
	return names
}

// number returns the place of a partition in the list, from 0, or -1 for another service.
func (n *node) number(service serviceName) int {
	return slices.IndexFunc(n.groups, func(p partitionGroups) bool { return p.service == service })
}

func (n *node) of(service serviceName) []staticReplica {
	var all []staticReplica
	for number := range n.count[service] {
		all = append(all, staticReplica{service, number + 1})
	}
	return all
}

// hasOwnProbes returns whether the replicas of a service have ports for probes. A probe at a port that several aggregators share would
// reach any of them.
func (n *node) hasOwnProbes(service serviceName) bool {
	return service != aggregator || n.count[aggregator] > 1
}

// servers returns the value of a flag with the URLs of all replicas of a service.
func (n *node) servers(service serviceName) string {
	var urls []string
	for _, r := range n.of(service) {
		urls = append(urls, "https://"+loopback(n.ports(r).serving))
	}
	return strings.Join(urls, ",")
}

// grpcServers returns the value of a flag with the addresses of all replicas of a service.
func (n *node) grpcServers(service serviceName) string {
	var addresses []string
	for _, r := range n.of(service) {
		addresses = append(addresses, loopback(n.ports(r).grpc))
	}
	return strings.Join(addresses, ",")
}

// staticReplica is a replica of a service on a node. Its number counts from 1.
type staticReplica struct {
	service serviceName
	number  int
}

// podName returns the name of the static pod: kube-apiserver, tripod-core, tripod-core-2.
func (r staticReplica) podName() string {
	switch {
	case r.number > 1:
		return fmt.Sprintf("%s-%d", podOf(r.service), r.number)
	case r.service == aggregator:
		return Name
	default:
		return podOf(r.service)
	}
}

func (n *node) ports(r staticReplica) localPorts {
	if place := n.number(r.service); place >= 0 {
		first := int32(firstPartitionPort + partitionPorts*(maxStaticReplicas*place+r.number-1))
		return localPorts{first, first + 1, first + 2}
	}
	first, offset := firstPorts[r.service], int32(portStep*(r.number-1))
	return localPorts{first.serving + offset, first.grpc + offset, first.probes + offset}
}

// podOf returns the name of the first static pod of a service, and of the user as which it runs.
func podOf(service serviceName) string { return "tripod-" + string(service) }

// binary returns the name of the program of a service, and of its image.
func binary(service serviceName) string { return list.Program(string(program(service))) }

func loopback(port int32) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }

// formerCopies returns the directories with copies of files for partitions that the node has no longer.
func (n *node) formerCopies(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, addresses.PartitionBackend("*")))
	return slices.DeleteFunc(found, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || !info.IsDir() || slices.Contains(n.services, serviceName(filepath.Base(path)))
	}), err
}

// backendFlags are the flags by which an aggregator finds the partitions.
func (n *node) backendFlags() []string {
	var flags []string
	for _, p := range n.groups {
		flags = append(flags, fmt.Sprintf("--backend=%s=%s", p.service, n.servers(p.service)),
			fmt.Sprintf("--backend-grpc=%s=%s", p.service, n.grpcServers(p.service)), fmt.Sprintf("--backend-groups=%s=%s", p.service, p.groups))
	}
	return flags
}

// partitionFlags are the flags by which a replica of extensions knows the partitions.
func (n *node) partitionFlags(service serviceName) []string {
	var flags []string
	if partition, ok := addresses.PartitionOf(string(service)); ok {
		flags = append(flags, "--partition="+partition)
	}
	for _, p := range n.groups {
		partition, _ := addresses.PartitionOf(string(p.service))
		flags = append(flags, "--partition-groups="+partition+"="+p.groups)
	}
	return flags
}
