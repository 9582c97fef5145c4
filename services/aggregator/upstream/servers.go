// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import "github.com/tripod-k8s/tripod/internal/hop/addresses"

// servers are where the replicas of a backend are.
type servers struct {
	// addresses are host:port of single replicas.
	addresses []string
	// names are host:port where the host stands for the addresses of any number of replicas.
	names []string
}

// parseServers reads a list of servers.
func parseServers(list []string) (servers, error) {
	var parsed servers
	for _, server := range list {
		at, err := addresses.OfServer(server)
		switch {
		case err != nil:
			return servers{}, err
		case at.IsName:
			parsed.names = append(parsed.names, at.Address())
		default:
			parsed.addresses = append(parsed.addresses, at.Address())
		}
	}
	return parsed, nil
}
