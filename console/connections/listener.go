// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"container/list"
	"context"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// NetworkOf returns the network of a client's address with a port: an address of IPv4, or a /64 of IPv6, which a client often has for
// itself. Clients behind a proxy have its address.
func NetworkOf(remote string) netip.Prefix {
	address, _ := netip.ParseAddrPort(remote)
	ip := address.Addr().Unmap()
	network, _ := ip.Prefix(min(ip.BitLen(), 64))
	return network
}

// Listen returns a listener that has at most ofNetwork connections of a network at once, and at most all.
func Listen(on net.Listener, ofNetwork, all int) net.Listener {
	return &listener{Listener: on, ofNetwork: ofNetwork, all: all, networks: map[netip.Prefix]*network{}}
}

type listener struct {
	net.Listener
	ofNetwork, all int

	mu       sync.Mutex
	count    int
	networks map[netip.Prefix]*network
	// uses counts, so that the connection with the smallest number was unused for longest.
	uses int64
}

// network has connections.
type network struct {
	count int
	// strangers and users are those that may be closed, without and with a user, the longest-unused first.
	strangers, users list.List
}

// replaceable returns the connection that another one may replace, or nil if all are in use. If most connections are those of strangers,
// it is any of these, so that a client that floods cannot choose it, such as a handshake of another client. Otherwise it is the
// longest-unused one of a user, so that users leave places for handshakes of others.
func (n *network) replaceable() *connection {
	if strangers := n.strangers.Len(); strangers > 0 && (2*strangers > n.count || n.users.Len() == 0) {
		found := n.strangers.Front()
		for range rand.IntN(strangers) { //nolint:gosec // its seed is random, and no client sees its numbers
			found = found.Next()
		}
		return found.Value.(*connection)
	}
	if longest := n.users.Front(); longest != nil {
		return longest.Value.(*connection)
	}
	return nil
}

// unused returns how many connections may be closed, and since when the longest-unused one may.
func (n *network) unused() (count int, since int64) {
	since = math.MaxInt64
	for _, all := range []*list.List{&n.strangers, &n.users} {
		if longest := all.Front(); longest != nil {
			since = min(since, longest.Value.(*connection).since)
		}
	}
	return n.strangers.Len() + n.users.Len(), since
}

// connection is that of a client, below TLS.
type connection struct {
	net.Conn
	of    *listener
	from  netip.Prefix
	close sync.Once

	// The lock of the listener guards the rest. Place is that among the unused ones in a list. It is nil while requests use the connection.
	place    *list.Element
	in       *list.List
	since    int64
	requests int
	// ofUser is whether the last request was one of a user.
	ofUser bool
	// gone is set when the connection does not count any more.
	gone bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: raw, of: l, from: NetworkOf(raw.RemoteAddr().String())}
		replaced, admitted := l.add(c)
		if replaced != nil {
			_ = replaced.Conn.Close() // it is gone in any case
		}
		if admitted {
			return c, nil
		}
		_ = raw.Close() // nothing was sent
	}
}

// add counts a connection. It returns the one that the new one replaces, if any, and whether there is a place.
func (l *listener) add(c *connection) (replaced *connection, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.networks[c.from]
	from := own
	switch {
	case own != nil && own.count >= l.ofNetwork:
	case l.count >= l.all:
		from = l.largest()
	default:
		from = nil
	}
	if from != nil {
		if replaced = from.replaceable(); replaced == nil {
			return nil, false
		}
		l.remove(replaced)
	}
	if own = l.networks[c.from]; own == nil {
		own = &network{}
		l.networks[c.from] = own
	}
	own.count++
	l.count++
	l.rest(c)
	return replaced, true
}

// largest returns the network with most connections among those with an unused one. Of several, it is the one whose connection was unused
// for longest. If all connections are in use, it is one without any that is unused.
func (l *listener) largest() *network {
	found, longest := &network{}, int64(0)
	for _, n := range l.networks {
		if unused, since := n.unused(); unused > 0 && (n.count > found.count || n.count == found.count && since < longest) {
			found, longest = n, since
		}
	}
	return found
}

// rest notes that a connection is unused from now on.
func (l *listener) rest(c *connection) {
	l.uses++
	c.since = l.uses
	of := l.networks[c.from]
	if c.in = &of.strangers; c.ofUser {
		c.in = &of.users
	}
	c.place = c.in.PushBack(c)
}

// take notes that a connection may not be closed.
func (c *connection) take() {
	if c.place != nil {
		c.in.Remove(c.place)
		c.place, c.in = nil, nil
	}
}

// remove ends the counting of a connection.
func (l *listener) remove(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	n := l.networks[c.from]
	c.take()
	l.count--
	if n.count--; n.count == 0 {
		delete(l.networks, c.from)
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.close.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.of.remove(c)
	})
	return c.Conn.Close()
}

type contextKey struct{}

// Context is the ConnContext of a server, so that Hold finds the connection of a request.
func Context(ctx context.Context, conn net.Conn) context.Context {
	if above, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = above.NetConn() // TLS
	}
	return context.WithValue(ctx, contextKey{}, conn)
}

// Hold keeps the connection of a request from being replaced, until the caller frees it. OfUser is whether the request is one of a user
// who is signed in. The connection then stays longer than others.
func Hold(ctx context.Context, ofUser bool) (free func()) {
	c, ok := ctx.Value(contextKey{}).(*connection)
	if !ok {
		return func() {}
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.requests++
	c.ofUser = ofUser
	c.take()
	return func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		if c.requests--; c.requests == 0 && !c.gone {
			c.of.rest(c)
		}
	}
}
