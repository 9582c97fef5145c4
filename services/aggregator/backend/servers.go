// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// servers are where the replicas of a backend are.
type servers struct {
	// addresses are host:port of single replicas.
	addresses []string
	// names are host:port where the host stands for the addresses of any number of replicas.
	names []string
}

// parseServers reads a list of servers. Each is the URL of a replica, https://host:port, or a name
// whose addresses are those of replicas, dns:///host:port.
func parseServers(list []string) (servers, error) {
	var parsed servers
	for _, server := range list {
		u, err := url.Parse(server)
		if err != nil {
			return servers{}, fmt.Errorf("%q is not of the form https://host:port or dns:///host:port", server)
		}
		switch {
		case u.Scheme == "https" && u.Host != "" && (u.Path == "" || u.Path == "/"):
			host, port := u.Hostname(), u.Port()
			if port == "" {
				port = "443"
			}
			parsed.addresses = append(parsed.addresses, net.JoinHostPort(host, port))
		case u.Scheme == "dns" && u.Host == "":
			name := strings.TrimPrefix(u.Path, "/")
			if host, port, err := net.SplitHostPort(name); err != nil || host == "" || port == "" {
				return servers{}, fmt.Errorf("%q is not of the form dns:///host:port", server)
			}
			parsed.names = append(parsed.names, name)
		default:
			return servers{}, fmt.Errorf("%q is not of the form https://host:port or dns:///host:port", server)
		}
	}
	return parsed, nil
}

// ValidateServer returns an error that says what is wrong with an element of the list of servers.
func ValidateServer(server string) error {
	_, err := parseServers([]string{server})
	return err
}
