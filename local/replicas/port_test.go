// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"net"
	"strconv"
	"testing"
)

func TestReservedPortIsKeptUntilItsRelease(t *testing.T) {
	port, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	number, err := strconv.Atoi(port.Number())
	if err != nil || number < firstPort || number > lastPort {
		t.Errorf("port is %q, want one between %d and %d", port.Number(), firstPort, lastPort)
	}
	address := net.JoinHostPort("127.0.0.1", port.Number())
	if want := "https://" + address; port.URL() != want {
		t.Errorf("URL is %q, want %q", port.URL(), want)
	}
	if listener, err := net.Listen("tcp", address); err == nil {
		t.Errorf("the port can be taken before its release: %v", listener.Close())
	}
	port.Release()
	port.Release()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the port cannot be taken after its release: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}

func TestClientAddress(t *testing.T) {
	for bind, want := range map[string]string{
		"0.0.0.0": "127.0.0.1", "::": "::1", "127.0.0.1": "127.0.0.1", "::1": "::1", "192.0.2.1": "192.0.2.1",
	} {
		if got := ClientAddress(net.ParseIP(bind)); !got.Equal(net.ParseIP(want)) {
			t.Errorf("clients of %s use %s, want %s", bind, got, want)
		}
	}
}
