// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChoosePorts(t *testing.T) {
	loopback := net.IPv4(127, 0, 0, 1)
	busy := holdPort(t)

	for _, n := range []int{1, 5} {
		first, err := choosePorts(loopback, 0, n)
		if err != nil || first == 0 {
			t.Errorf("%d for 0: %d, %v", n, first, err)
		}
		if taken, err := tryPorts(loopback, first, n); err != nil {
			t.Errorf("port %d is not free: %v", taken, err)
		}
	}
	want := fmt.Sprintf("port %d of 127.0.0.1 is already in use: give another --port", busy)
	for first, n := range map[int]int{busy: 1, busy - 1: 2} {
		if _, err := choosePorts(loopback, first, n); err == nil || err.Error() != want {
			t.Errorf("error for %d ports from %d on is %v, want %s", n, first, err, want)
		}
	}
	want = "--bind-address 192.0.2.77 is not an address of this machine"
	if _, err := choosePorts(net.IPv4(192, 0, 2, 77), 0, 1); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// holdPort listens at a port after a free one. Both are below those that the system gives to connections, one of which could take the free one.
func holdPort(t *testing.T) int {
	for port := 10_001 + rand.IntN(9_000); port < 20_000; port += 2 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if _, err := tryPorts(net.IPv4(127, 0, 0, 1), port-1, 1); err == nil {
			t.Cleanup(func() { assert.NoError(t, listener.Close()) })
			return port
		}
		require.NoError(t, listener.Close())
	}
	t.Fatal("no port is free")
	return 0
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
		assert.Contains(t, names, name, "%s is missing in %v", name, names)
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
