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

// freePortTries is how often to look for several free ports in a row.
const freePortTries = 100

// choosePorts checks that n ports in a row are free, beginning with a given one, and returns the first. If the given port is
// 0, it finds free ones.
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

// tryPorts listens on ports in a row, and closes them again. It returns the first port, or the one that is taken and why.
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

// advertiseAddress returns the address for the endpoints of the kubernetes Service, by the rule of kube-apiserver. It is nil
// if the machine has only addresses that endpoints may not have, such as loopback addresses.
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

// serverNames returns all names and addresses of the instance, for its certificate.
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
