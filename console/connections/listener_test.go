// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// past makes a read return at once.
var past = time.Unix(1, 0)

// clients is a listener whose connections come from the addresses that a test names.
type clients struct {
	net.Listener
	arriving chan net.Conn
}

func (c *clients) Accept() (net.Conn, error) { return <-c.arriving, nil }

// from is an end of a connection that comes from an address.
type from struct {
	net.Conn
	address net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.address }

// server is the listener under test, and the other end of each of its connections.
type server struct {
	*testing.T
	net.Listener
	*clients
}

func newServer(t *testing.T, ofNetwork, all int) *server {
	c := &clients{arriving: make(chan net.Conn)}
	return &server{t, Listen(c, ofNetwork, all), c}
}

// accepted is a connection with both of its ends.
type accepted struct {
	net.Conn
	client net.Conn
}

// connect returns a connection that the server has accepted.
func (s *server) connect(address string) accepted {
	s.Helper()
	return s.connectAll(address)[0]
}

// connectAll has clients arrive until the server has accepted one. It returns the accepted one, and the refused ones.
func (s *server) connectAll(addresses ...string) []accepted {
	s.Helper()
	all := make([]accepted, len(addresses))
	go func() {
		for i, address := range addresses {
			own, client := net.Pipe()
			all[i] = accepted{own, client}
			s.arriving <- from{own, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
		}
	}()
	conn, err := s.Listener.Accept()
	require.NoError(s, err)
	all[len(all)-1].Conn = conn
	return all
}

// closed returns whether the server has closed a connection.
func (a accepted) closed() bool {
	if a.client.SetReadDeadline(past) != nil {
		return true
	}
	_, err := a.client.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// connectForUser returns a connection that a request of a user has used.
func (s *server) connectForUser(address string) accepted {
	s.Helper()
	c := s.connect(address)
	Hold(Context(s.Context(), c.Conn), true)()
	return c
}

func TestANewConnectionReplacesTheLongestUnusedUserOfItsNetwork(t *testing.T) {
	t.Parallel()
	s := newServer(t, 2, 100)
	first, second, other := s.connectForUser("192.0.2.1:1"), s.connectForUser("192.0.2.1:2"), s.connectForUser("192.0.2.2:1")
	third := s.connectForUser("192.0.2.1:3")
	assert.True(t, first.closed())
	for name, kept := range map[string]accepted{"second": second, "third": third, "of another network": other} {
		assert.False(t, kept.closed(), name)
	}
	Hold(Context(t.Context(), second.Conn), true)() // a request makes it the latest
	s.connectForUser("192.0.2.1:4")
	assert.True(t, third.closed())
	assert.False(t, second.closed())
	require.NoError(t, first.Conn.Close(), "a connection that was replaced counts once")
	require.NoError(t, second.Conn.Close())
	require.NoError(t, other.Conn.Close())
	s.connect("192.0.2.1:5")
	assert.Len(t, s.Listener.(*listener).networks, 1)
	assert.Equal(t, 2, s.Listener.(*listener).count)
}

// TestConnectionsWithoutAUserReplaceEachOther has strangers flood from the address of users.
func TestConnectionsWithoutAUserReplaceEachOther(t *testing.T) {
	t.Parallel()
	s := newServer(t, 8, 100)
	var users []accepted
	for range 3 {
		users = append(users, s.connectForUser("192.0.2.1:1"))
	}
	signedOut := s.connectForUser("192.0.2.1:1")
	Hold(Context(t.Context(), signedOut.Conn), false)()
	for range 1000 {
		s.connect("192.0.2.1:2")
	}
	for _, user := range users {
		assert.False(t, user.closed())
	}
	assert.True(t, signedOut.closed())
}

func TestAFloodDoesNotChooseWhichConnectionItReplaces(t *testing.T) {
	t.Parallel()
	s := newServer(t, 8, 100)
	var all []accepted
	order := map[int]int{}
	for range 8 + 1000 {
		all = append(all, s.connect("192.0.2.1:1"))
		for i := range all[:len(all)-1] {
			if all[i].closed() {
				order[i]++
				all = append(all[:i], all[i+1:]...)
				break
			}
		}
	}
	assert.Len(t, order, 8, "some were replaced early, and some late")
}

// TestUsersLeavePlacesForHandshakes has users whose idle connections take all places of their network.
func TestUsersLeavePlacesForHandshakes(t *testing.T) {
	t.Parallel()
	s := newServer(t, 8, 100)
	for range 8 {
		s.connectForUser("192.0.2.1:1")
	}
	var handshakes []accepted
	for range 5 {
		handshakes = append(handshakes, s.connect("192.0.2.1:2"))
	}
	for i, handshake := range handshakes {
		assert.False(t, handshake.closed(), i)
	}
}

func TestAConnectionInUseStays(t *testing.T) {
	t.Parallel()
	s := newServer(t, 2, 100)
	first, second := s.connect("[2001:db8::1]:1"), s.connect("[2001:db8::2]:1")
	one, two := Hold(Context(t.Context(), first.Conn), false), Hold(Context(t.Context(), first.Conn), false)
	third := s.connect("[2001:db8::3]:1")
	assert.True(t, second.closed(), "the networks of the clients are the same")
	assert.False(t, first.closed())
	one()
	hold := Hold(Context(t.Context(), third.Conn), true)
	all := s.connectAll("[2001:db8::4]:1", "[2001:db8:0:1::1]:1")
	assert.True(t, all[0].closed(), "all connections of the network are in use, so the listener refuses another one")
	two()
	s.connect("[2001:db8::4]:1")
	assert.True(t, first.closed())
	hold()
	Hold(context.Background(), true)()
}

func TestAFullServerClosesConnectionsOfTheLargestNetwork(t *testing.T) {
	t.Parallel()
	s := newServer(t, 3, 5)
	alone := s.connect("192.0.2.1:1")
	two := []accepted{s.connect("192.0.2.2:1"), s.connect("192.0.2.2:2")}
	three := []accepted{s.connect("192.0.2.3:1"), s.connect("192.0.2.3:2")}
	s.connect("192.0.2.4:1")
	assert.NotEqual(t, two[0].closed(), two[1].closed(), "of two networks, that with the longest-unused connection")
	s.connect("192.0.2.5:1")
	assert.NotEqual(t, three[0].closed(), three[1].closed(), "the largest network")
	assert.False(t, alone.closed())
	s.connect("192.0.2.6:1")
	assert.True(t, alone.closed(), "all networks are as large")
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	assert.Equal(t, NetworkOf("[2001:db8::1]:1"), NetworkOf("[2001:db8::ffff:2]:2"), "a host has a network")
	assert.NotEqual(t, NetworkOf("[2001:db8::1]:1"), NetworkOf("[2001:db8:0:1::1]:1"))
	assert.Equal(t, NetworkOf("192.0.2.7:1"), NetworkOf("[::ffff:192.0.2.7]:1"))
	assert.NotEqual(t, NetworkOf("192.0.2.7:1"), NetworkOf("192.0.2.8:1"))
}
