// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start returns a port that answers every connection with a name, and keeps it open until the test ends.
func start(t *testing.T, name, address string) *Port {
	t.Helper()
	own, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := New(own, address)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := p.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if !assert.NoError(t, err) {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, name+"\n")
				_, _ = io.Copy(conn, conn) // until the client closes it
			})
		}
	})
	t.Cleanup(func() {
		assert.NoError(t, p.Close())
		serving.Wait()
	})
	return p
}

// freeAddress returns an address at which no process listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// connect returns who answers at an address, and the connection.
func connect(t *testing.T, address string) (string, net.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return read(t, conn), conn
}

func read(t *testing.T, conn net.Conn) string {
	t.Helper()
	line := make([]byte, len("one\n"))
	_, err := io.ReadFull(conn, line)
	require.NoError(t, err)
	return string(line[:len(line)-1])
}

func TestConnectionsComeFromJoinToLeave(t *testing.T) {
	address := freeAddress(t)
	one, two := start(t, "one", address), start(t, "two", address)
	_, err := net.Dial("tcp", address)
	require.Error(t, err, "nobody has joined")
	require.Error(t, one.Joined())

	require.NoError(t, one.Join(t.Context()))
	require.NoError(t, one.Joined())
	var kept net.Conn
	for range 10 {
		var name string
		name, kept = connect(t, address)
		assert.Equal(t, "one", name, "two has not joined")
	}
	name, _ := connect(t, two.Addr().String())
	assert.Equal(t, "two", name, "the own port serves from the beginning")

	require.NoError(t, two.Join(t.Context()))
	reached := map[string]bool{}
	for len(reached) < 2 { // by the hash of the client's port
		name, _ := connect(t, address)
		reached[name] = true
	}

	one.Leave()
	require.Error(t, one.Joined())
	for range 10 {
		name, _ := connect(t, address)
		assert.Equal(t, "two", name, "one has left")
	}
	_, err = io.WriteString(kept, "all\n")
	require.NoError(t, err)
	assert.Equal(t, "all", read(t, kept), "connections from before go on")
	name, _ = connect(t, one.Addr().String())
	assert.Equal(t, "one", name, "the own port serves to the end")
	require.NoError(t, one.Join(t.Context()))
	require.Error(t, one.Joined(), "it left for good")
}

func TestJoinWaitsForAProgramThatDoesNotShareThePort(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	one := start(t, "one", other.Addr().String())
	joined := make(chan error, 1)
	go func() { joined <- one.Join(t.Context()) }()
	ended, end := context.WithCancel(t.Context())
	end()
	require.Error(t, one.Join(ended))
	require.NoError(t, other.Close())
	require.NoError(t, <-joined)
	name, _ := connect(t, other.Addr().String())
	assert.Equal(t, "one", name)
}

func TestAnAddressThatIsNotOfThisHostIsAnError(t *testing.T) {
	assert.Error(t, start(t, "one", "192.0.2.1:1").Join(t.Context()))
}
