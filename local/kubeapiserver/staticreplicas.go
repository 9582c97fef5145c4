// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxStaticReplicas keeps the ports of the replicas within a hundred.
	maxStaticReplicas = 9
	// portStep is between the ports of two replicas of a service.
	portStep = 10
)

// localPorts are the ports of 127.0.0.1 of a static pod. On a node, nothing that kubeadm starts has them.
type localPorts struct{ serving, grpc, probes int32 }

// firstPorts are the ports of the first replica of each service. A single aggregator has kube-apiserver's port alone.
var firstPorts = map[serviceName]localPorts{
	core:       {7440, 7441, 7442},
	extensions: {7443, 7444, 7445},
	aggregator: {serving: 7446, probes: 7447},
}

// node has the number of replicas of each service on a node.
type node map[serviceName]int

// newNode fills in and checks numbers of replicas.
func newNode(replicas map[string]int) (node, error) {
	on := node{core: 1, extensions: 1, aggregator: 1}
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		if on[serviceName(name)] == 0 {
			return nil, fmt.Errorf("replicas: %q is none of %s, %s and %s", name, core, extensions, aggregator)
		}
		count := replicas[name]
		if count < 1 || count > maxStaticReplicas {
			return nil, fmt.Errorf("replicas: %s has %d, want 1 to %d", name, count, maxStaticReplicas)
		}
		on[serviceName(name)] = count
	}
	return on, nil
}

func (n node) of(service serviceName) []staticReplica {
	var all []staticReplica
	for number := range n[service] {
		all = append(all, staticReplica{service, number + 1})
	}
	return all
}

// hasOwnProbes returns whether the replicas of a service have ports for probes. A probe at a port that several aggregators share would
// reach any of them.
func (n node) hasOwnProbes(service serviceName) bool {
	return service != aggregator || n[aggregator] > 1
}

// servers returns the value of a flag with the URLs of all replicas of a service.
func (n node) servers(service serviceName) string {
	var urls []string
	for _, r := range n.of(service) {
		urls = append(urls, "https://"+loopback(r.ports().serving))
	}
	return strings.Join(urls, ",")
}

// grpcServers returns the value of a flag with the addresses of all replicas of a service.
func (n node) grpcServers(service serviceName) string {
	var addresses []string
	for _, r := range n.of(service) {
		addresses = append(addresses, loopback(r.ports().grpc))
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
		return fmt.Sprintf("%s-%d", binary(r.service), r.number)
	case r.service == aggregator:
		return Name
	default:
		return binary(r.service)
	}
}

func (r staticReplica) ports() localPorts {
	first, further := firstPorts[r.service], int32(portStep*(r.number-1)) //nolint:gosec // less than 100
	return localPorts{first.serving + further, first.grpc + further, first.probes + further}
}

func binary(service serviceName) string { return "tripod-" + string(service) }

func loopback(port int32) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }
