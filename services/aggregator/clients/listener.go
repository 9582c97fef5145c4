// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/keepalive"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
)

// Listen returns a listener whose connections count. They end within a minute if their other end is gone.
func (c *Connections) Listen(on net.Listener) net.Listener { return &listener{on, c} }

type listener struct {
	net.Listener
	connections *Connections
}

// Accept implements net.Listener. It waits while too many connections are being closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &connection{Conn: raw, of: l.connections, address: hostOf(raw.RemoteAddr())}
		if l.connections.add(conn) {
			keepalive.Set(raw)
			keepalive.LimitPauses(raw)
			return conn, nil
		}
		closedConnections.WithLabelValues(closedRefused).Inc()
		klog.V(2).InfoS("A connection was refused, because all others are in use", "client", raw.RemoteAddr())
		_ = raw.Close() // nothing was sent
	}
}

func hostOf(address net.Addr) string {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return host
}

// connection is that of a client, below TLS.
type connection struct {
	net.Conn
	of      *Connections
	address string
	close   sync.Once

	// busy is inUse > 0, and received what has arrived since the connection was last in use or answered.
	busy     atomic.Bool
	received atomic.Int64

	// The lock of the connections guards the rest. holder is nil when the connection does not count.
	holder *holder
	bytes  int64
	// unused is its place among those of its holder that may be closed. It is nil while it may not, or is being closed.
	unused  *list.Element
	inUse   int
	evicted bool
	// mixed is set when the connection has had requests of several users.
	mixed bool
}

// step is how much of what a connection sends without being in use counts with what it costs. More counts step by step.
const step = 16 << 10

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.busy.Load() {
		if received := c.received.Add(int64(n)); received/step > (received-int64(n))/step {
			c.of.grow(c)
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.close.Do(func() { c.of.remove(c) })
	return c.Conn.Close()
}

// LocalAddr implements net.Conn. The server puts the address into the context of each request, and so the connection.
func (c *connection) LocalAddr() net.Addr { return localAddress{c.Conn.LocalAddr(), c} }

type localAddress struct {
	net.Addr
	connection *connection
}

// from returns the connection of a request, or nil if it did not come by the listener.
func from(ctx context.Context) *connection {
	if address, ok := ctx.Value(http.LocalAddrContextKey).(localAddress); ok {
		return address.connection
	}
	return nil
}

// grow counts what a connection has sent that is not in use.
func (c *Connections) grow(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.unused == nil {
		return
	}
	c.resize(conn, connectionCost+conn.received.Load())
	c.makeRoom(0)
}

// answered is called when a request has been answered that may not have used its connection. With HTTP/1.1, what the connection has sent
// was this request. With HTTP/2, it may be a part of another one, and the server closes the connection if no user is known to use it.
func (c *Connections) answered(conn *connection, req *http.Request) {
	if req.ProtoMajor != 1 || conn.received.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.unused == nil {
		return
	}
	conn.received.Store(0)
	c.resize(conn, connectionCost)
}

// resize changes what a connection takes.
func (c *Connections) resize(conn *connection, bytes int64) {
	more := bytes - conn.bytes
	if more == 0 {
		return
	}
	conn.bytes += more
	conn.holder.taken += more
	c.taken += more
	if conn.evicted {
		c.closing += more
	}
	takenBytes.Set(float64(c.taken))
}

// ownerOf returns whose requests are that arrive on a connection, or false if they are those of a service.
func (c *Connections) ownerOf(conn *connection) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.holder == nil {
		return "", false
	}
	return conn.holder.owner.String(), true
}

// begin is called when a request of a user begins on a connection. It returns false if the user has too many connections in use. A user may
// have as many as are still free (see package requestmemory).
func (c *Connections) begin(conn *connection, sender user.Info) bool {
	name := requestmemory.NameOf(sender)
	exempt := trust.ServiceOf(sender) != "" || sender.GetName() == user.APIServerUser
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.holder == nil {
		conn.inUse++
		return true
	}
	to := conn.holder.owner
	switch {
	case to.user == "" && !conn.mixed:
		to = owner{user: name}
	case to.user != "" && to.user != name:
		to, conn.mixed = owner{address: conn.address}, true
	}
	h := conn.holder
	if to != h.owner {
		h = c.owners[to]
	}
	if conn.inUse == 0 && !exempt && h != nil && h.used+connectionCost > c.limit-c.used {
		return false
	}
	if h == conn.holder && !exempt {
		if conn.inUse++; conn.inUse == 1 {
			c.occupy(conn)
		}
		return true
	}
	conn.busy.Store(true)
	c.take(conn)
	conn.inUse++
	if conn.evicted {
		c.closing -= conn.bytes - connectionCost
	}
	conn.bytes = connectionCost
	if !exempt || conn.evicted {
		c.give(conn, to)
	}
	return true
}

// occupy notes that a connection is in use now, by a request of its owner.
func (c *Connections) occupy(conn *connection) {
	conn.busy.Store(true)
	if conn.unused != nil {
		conn.holder.unused.Remove(conn.unused)
		conn.unused = nil
	}
	c.use(conn.holder, connectionCost)
	c.resize(conn, connectionCost)
}

// end is called when the request has ended.
func (c *Connections) end(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.inUse--
	if conn.inUse > 0 || conn.holder == nil {
		return
	}
	c.use(conn.holder, -connectionCost)
	conn.received.Store(0)
	conn.busy.Store(false)
	if !conn.evicted {
		conn.unused = conn.holder.unused.PushBack(conn)
	}
}
