// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcluster

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

// portLabel begins the label of a node whose value is the host's port for a port of the node.
const portLabel = "e2e.tripod/port-"

// readConfig reads a configuration of kind. Without a file it returns kind's default.
func readConfig(file string) (*v1alpha4.Cluster, error) {
	config := &v1alpha4.Cluster{}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("cannot read kind's configuration: %w", err)
		}
		if err := yaml.UnmarshalStrict(data, config); err != nil {
			return nil, fmt.Errorf("cannot read kind's configuration %s: %w", file, err)
		}
	}
	config.TypeMeta = v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"}
	if len(config.Nodes) == 0 {
		config.Nodes = []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole}}
	}
	return config, nil
}

// addWorkers adds nodes until the configuration has so many besides the first.
func addWorkers(config *v1alpha4.Cluster, workers int) {
	for len(config.Nodes) <= workers {
		config.Nodes = append(config.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole})
	}
}

// mapPorts adds port mappings to the first node. A port maps to the given port of 127.0.0.1, to that of the configuration, or to any free
// port, in this order. Labels of the node record the mappings.
func mapPorts(config *v1alpha4.Cluster, ports map[int32]int32) error {
	node := &config.Nodes[0]
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for port, want := range ports {
		mapping := mappingOf(node, port)
		if want != 0 {
			mapping.HostPort = want
		}
		if mapping.HostPort <= 0 {
			free, err := freePort()
			if err != nil {
				return err
			}
			mapping.HostPort = free
		}
		node.Labels[portLabel+strconv.Itoa(int(port))] = strconv.Itoa(int(mapping.HostPort))
	}
	return nil
}

// mappingOf returns the mapping of a port, and adds one if the port has none.
func mappingOf(node *v1alpha4.Node, port int32) *v1alpha4.PortMapping {
	for i, m := range node.ExtraPortMappings {
		if m.ContainerPort == port {
			return &node.ExtraPortMappings[i]
		}
	}
	node.ExtraPortMappings = append(node.ExtraPortMappings, v1alpha4.PortMapping{
		ContainerPort: port, ListenAddress: "127.0.0.1", Protocol: v1alpha4.PortMappingProtocolTCP,
	})
	return &node.ExtraPortMappings[len(node.ExtraPortMappings)-1]
}

func freePort() (int32, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("cannot find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return int32(port), listener.Close()
}
