// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReservedPortIsKeptUntilItsRelease(t *testing.T) {
	port, err := ReservePort()
	require.NoError(t, err)
	t.Cleanup(port.Release)
	number, err := strconv.Atoi(port.Number())
	if err != nil || number < firstPort || number > lastPort {
		t.Errorf("port is %q, want one between %d and %d", port.Number(), firstPort, lastPort)
	}
	address := net.JoinHostPort("127.0.0.1", port.Number())
	assert.Equal(t, "https://"+address, port.URL(), "URL")
	if listener, err := net.Listen("tcp", address); err == nil {
		t.Errorf("the port can be taken before its release: %v", listener.Close())
	}
	port.Release()
	port.Release()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err, "the port cannot be taken after its release")
	assert.NoError(t, listener.Close())
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
