// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// choosePort checks that clients can be served on the port, or finds a free one when it is 0.
func choosePort(address net.IP, port int) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), strconv.Itoa(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return 0, fmt.Errorf("port %d of %s is already in use: give another --port", port, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return 0, fmt.Errorf("--bind-address %s is not an address of this machine", address)
	case err != nil:
		return 0, fmt.Errorf("cannot serve on port %d of %s: %w", port, address, err)
	}
	defer listener.Close() //nolint:errcheck // it was only to know
	return listener.Addr().(*net.TCPAddr).Port, nil
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
