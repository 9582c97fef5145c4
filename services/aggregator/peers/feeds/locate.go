// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"fmt"
	"net"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
)

// Locator returns a function that returns the gRPC address of a replica. servers and grpcAddresses have the same order. A URL,
// https://host:port, pairs with host:port. A DNS name, dns:///name:port, pairs with dns:///name:port. Without grpcAddresses no replica
// serves gRPC.
func Locator(servers, grpcAddresses []string) (func(address string) (string, bool), error) {
	if len(grpcAddresses) == 0 {
		return func(string) (string, bool) { return "", false }, nil
	}
	if len(grpcAddresses) != len(servers) {
		return nil, fmt.Errorf("there are %d addresses for %d servers", len(grpcAddresses), len(servers))
	}
	single := map[string]string{}
	// byPort has the ports of DNS names. Replicas behind a name have the same port at different addresses.
	byPort := map[string]string{}
	for i, server := range servers {
		at, err := addresses.OfServer(server)
		if err != nil {
			return nil, err
		}
		grpc, err := addresses.OfGRPC(grpcAddresses[i])
		switch {
		case err != nil:
			return nil, err
		case grpc.IsName != at.IsName:
			return nil, fmt.Errorf("%q does not go with %q", grpcAddresses[i], server)
		case at.IsName:
			byPort[at.Port] = grpc.Port
		default:
			single[at.Address()] = grpc.Address()
		}
	}
	return func(address string) (string, bool) {
		if at, ok := single[address]; ok {
			return at, true
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", false
		}
		at, ok := byPort[port]
		return net.JoinHostPort(host, at), ok
	}, nil
}
