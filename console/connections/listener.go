// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"container/list"
	"context"
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
	// unused are those that may be closed, the longest-unused first.
	unused list.List
}

// connection is that of a client, below TLS.
type connection struct {
	net.Conn
	of    *listener
	from  netip.Prefix
	close sync.Once

	// The lock of the listener guards the rest. Place is that among the unused ones. It is nil while requests use the connection.
	place    *list.Element
	since    int64
	requests int
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
		oldest := from.unused.Front()
		if oldest == nil {
			return nil, false
		}
		replaced = oldest.Value.(*connection)
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
	found := &network{}
	since := func(n *network) int64 { return n.unused.Front().Value.(*connection).since }
	for _, n := range l.networks {
		if n.unused.Len() > 0 && (n.count > found.count || n.count == found.count && since(n) < since(found)) {
			found = n
		}
	}
	return found
}

// rest notes that a connection is unused from now on.
func (l *listener) rest(c *connection) {
	l.uses++
	c.since = l.uses
	c.place = l.networks[c.from].unused.PushBack(c)
}

// remove ends the counting of a connection.
func (l *listener) remove(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	n := l.networks[c.from]
	if c.place != nil {
		n.unused.Remove(c.place)
		c.place = nil
	}
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

// Hold keeps the connection of a request from being replaced, until the caller frees it.
func Hold(ctx context.Context) (free func()) {
	c, ok := ctx.Value(contextKey{}).(*connection)
	if !ok {
		return func() {}
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.requests++
	if c.place != nil {
		c.of.networks[c.from].unused.Remove(c.place)
		c.place = nil
	}
	return func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		if c.requests--; c.requests == 0 && !c.gone {
			c.of.rest(c)
		}
	}
}
