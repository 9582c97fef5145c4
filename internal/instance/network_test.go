// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

func TestChoosePort(t *testing.T) {
	loopback := net.IPv4(127, 0, 0, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // only held
	busy := listener.Addr().(*net.TCPAddr).Port

	if port, err := choosePort(loopback, 0); err != nil || port == 0 {
		t.Errorf("for 0: %d, %v", port, err)
	}
	want := fmt.Sprintf("port %d of 127.0.0.1 is already in use", busy)
	if _, err := choosePort(loopback, busy); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error is %v, want %s", err, want)
	}
	want = "--bind-address 192.0.2.77 is not an address of this machine"
	if _, err := choosePort(net.IPv4(192, 0, 2, 77), 0); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestAdvertisedAddressIsNeverLoopback(t *testing.T) {
	for _, bind := range []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4zero, net.IPv6loopback} {
		if address := advertiseAddress(bind); address != nil && (address.IsLoopback() || address.To4() == nil) {
			t.Errorf("with --bind-address %s it is %s", bind, address)
		}
	}
	bind := net.IPv4(192, 0, 2, 1)
	if address := advertiseAddress(bind); !address.Equal(bind) {
		t.Errorf("with --bind-address %s it is %s", bind, address)
	}
}

func TestServerNames(t *testing.T) {
	names, addresses := serverNames(net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 2), kubernetesServiceIP)
	for _, name := range []string{"localhost", "kubernetes", "kubernetes.default.svc.cluster.local"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing in %v", name, names)
		}
	}
	for _, address := range []string{"127.0.0.1", "::1", "10.0.0.1", "192.0.2.1", "192.0.2.2"} {
		if !slices.ContainsFunc(addresses, net.ParseIP(address).Equal) {
			t.Errorf("%s is missing in %v", address, addresses)
		}
	}
	if _, addresses := serverNames(net.IPv4zero, nil, kubernetesServiceIP); len(addresses) != 3 {
		t.Errorf("addresses without any to add are %v", addresses)
	}
}
