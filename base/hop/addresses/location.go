// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// namePrefix is before names whose addresses are replicas.
const namePrefix = "dns:///"

// Location is where a replica is, or where replicas are.
type Location struct {
	Host, Port string
	// IsName is whether the host stands for any number of replicas.
	IsName bool
}

// Address returns host:port.
func (l Location) Address() string { return net.JoinHostPort(l.Host, l.Port) }

// OfServer reads where an API is served: https://host:port or dns:///host:port. The port of a URL may be left out, as in any.
func OfServer(server string) (Location, error) {
	if name, ok := strings.CutPrefix(server, namePrefix); ok {
		if l, ok := hostPort(name); ok {
			l.IsName = true
			return l, nil
		}
		return Location{}, fmt.Errorf("%q is not of the form %shost:port", server, namePrefix)
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return Location{}, fmt.Errorf("%q is not of the form https://host:port or %shost:port", server, namePrefix)
	}
	l, ok := hostPort(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	if !ok {
		return Location{}, fmt.Errorf("%q has no host, or no port between 1 and 65535", server)
	}
	return l, nil
}

// OfGRPC reads where gRPC is served: host:port or dns:///host:port.
func OfGRPC(address string) (Location, error) {
	name, isName := strings.CutPrefix(address, namePrefix)
	l, ok := hostPort(name)
	if !ok {
		return Location{}, fmt.Errorf("%q is not of the form host:port or %shost:port", address, namePrefix)
	}
	l.IsName = isName
	return l, nil
}

func hostPort(address string) (Location, bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.Contains(host, "/") {
		return Location{}, false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return Location{Host: host, Port: port}, err == nil && number > 0
}
