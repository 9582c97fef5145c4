// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports of services come from below the range of NodePorts and the usual range of ephemeral ports. So nothing takes the port of a service
// while the service restarts.
const (
	firstPort = 20000
	lastPort  = 29999
)

// Port is a free port of the loopback interface, held until the process that it is for starts.
type Port struct {
	listener *net.TCPListener
	address  string
}

// ReservePort holds a free port.
func ReservePort() (*Port, error) {
	const tries = 200
	var err error
	for range tries {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort+1)))
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err == nil {
			return &Port{listener: listener.(*net.TCPListener), address: address}, nil
		}
	}
	return nil, fmt.Errorf("found no free port between %d and %d: %w", firstPort, lastPort, err)
}

// Release frees the port for its process. It may be called more than once.
func (p *Port) Release() {
	p.listener.Close() //nolint:errcheck // only the first call can succeed
}

// URL returns the address of the port, such as https://127.0.0.1:20000.
func (p *Port) URL() string { return "https://" + p.address }

// Address returns the address of the port, such as 127.0.0.1:20000.
func (p *Port) Address() string { return p.address }

// Number returns the port, such as "20000".
func (p *Port) Number() string {
	_, number, _ := net.SplitHostPort(p.address)
	return number
}

// ClientAddress returns the address at which clients on this machine reach a server that listens on bind.
func ClientAddress(bind net.IP) net.IP {
	switch {
	case !bind.IsUnspecified():
		return bind
	case bind.To4() != nil:
		return net.IPv4(127, 0, 0, 1)
	}
	return net.IPv6loopback
}
