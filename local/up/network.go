// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// freePortTries is how often a place for several ports in a row is looked for.
const freePortTries = 100

// choosePorts checks that clients can be served on a port and those that follow it, n in all, and returns the first. When
// it is 0, free ones are found.
func choosePorts(address net.IP, port, n int) (int, error) {
	tries := 1
	if port == 0 {
		tries = freePortTries
	}
	var taken int
	var err error
	for range tries {
		if taken, err = tryPorts(address, port, n); err == nil {
			return taken, nil
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return 0, fmt.Errorf("%w: give another --port", cannotListen(address, taken, err))
	}
	return 0, cannotListen(address, taken, err)
}

// tryPorts takes ports in a row, gives them back and returns the first, or that which cannot be taken and why.
func tryPorts(address net.IP, first, n int) (int, error) {
	for i := range n {
		listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), strconv.Itoa(first+i)))
		if err != nil {
			return first + i, err
		}
		defer listener.Close() //nolint:errcheck // it was only to know
		if i == 0 {
			first = listener.Addr().(*net.TCPAddr).Port
		}
	}
	return first, nil
}

// cannotListen says why a port cannot be taken.
func cannotListen(address net.IP, port int, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %d of %s is already in use", port, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("--bind-address %s is not an address of this machine", address)
	}
	return fmt.Errorf("cannot serve on port %d of %s: %w", port, address, err)
}

// advertiseAddress returns the address that the endpoints of the kubernetes Service name, by the rule of
// kube-apiserver. It is nil when the machine has none that endpoints may have, which excludes loopback addresses.
func advertiseAddress(bind net.IP) net.IP {
	address, err := utilnet.ResolveBindAddress(bind)
	if err == nil && address.IsGlobalUnicast() && address.To4() != nil {
		return address
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, candidate := range interfaces {
		if network, ok := candidate.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP
		}
	}
	return nil
}

// serverNames returns everything that clients may call the instance, for its certificate.
func serverNames(bind, advertise, serviceIP net.IP) (names []string, addresses []net.IP) {
	names = []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	if hostname, err := os.Hostname(); err == nil {
		names = append(names, hostname)
	}
	addresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, serviceIP}
	for _, address := range []net.IP{bind, advertise} {
		if address != nil && !address.IsUnspecified() && !address.IsLoopback() {
			addresses = append(addresses, address)
		}
	}
	return names, addresses
}
