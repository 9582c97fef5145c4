// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"container/list"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
)

const (
	// connectionCost is what an idle connection takes of the memory: goroutines with their stacks, and the buffers of TLS and HTTP/2.
	// 10,000 idle ones took 34 KiB each, garbage included (test/disturb/attacks).
	connectionCost = 36 << 10
	// unlimited is what connections may take where the memory of the process has no limit.
	unlimited = 1 << 30
	// closingPart is the part of the memory that connections may take beyond, which are being closed.
	closingPart = 8
	// maxAwait is how long a new connection waits until there is room.
	maxAwait = 5 * time.Second
)

// Connections are those of all clients.
type Connections struct {
	limit int64
	// requests is what requests in flight share.
	requests *requestmemory.Budget

	mu sync.Mutex
	// taken is the memory of all connections, and closing that of connections that are being closed.
	taken, closing int64
	// used is the memory of connections in use.
	used   int64
	owners map[owner]*holder
	// closed is signalled when a connection has been closed.
	closed sync.Cond
}

// owner is whose a connection is: a user's, or not known yet.
type owner struct{ user, address string }

func (o owner) String() string { return o.user + o.address }

// holder is an owner that has connections.
type holder struct {
	owner owner
	taken int64
	// used is the memory of its connections in use.
	used  int64
	count int
	// unused are the connections that may be closed, the one first that has not been used for longest.
	unused list.List
}

// New returns connections that may take so many bytes. 0 is an eighth of what the process may have.
func New(limit int64, requests *requestmemory.Budget) *Connections {
	if limit == 0 {
		limit = requestmemory.PartOfProcess(8, unlimited)
	}
	registerMetrics()
	c := &Connections{limit: limit, requests: requests, owners: map[owner]*holder{}}
	c.closed.L = &c.mu
	return c
}

// add counts a new connection. It returns false if there is no room for it.
func (c *Connections) add(conn *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.bytes = connectionCost
	if !c.makeRoom(conn.bytes) || !c.awaitClosed(conn.bytes) {
		return false
	}
	c.give(conn, owner{address: conn.address})
	openConnections.Inc()
	return true
}

// awaitClosed waits until there is room for so many bytes: what was closed is still there for a moment. A handler can make that moment
// long, so it returns false if there is no room soon.
func (c *Connections) awaitClosed(bytes int64) bool {
	full := func() bool { return c.taken+bytes > c.limit+c.limit/closingPart && c.closing > 0 }
	if !full() {
		return true
	}
	until := time.Now().Add(maxAwait)
	timer := time.AfterFunc(maxAwait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed.Broadcast()
	})
	defer timer.Stop()
	for full() {
		if !time.Now().Before(until) {
			return false
		}
		c.closed.Wait()
	}
	return true
}

// makeRoom closes connections until there is room for so many bytes. It returns false if there is none.
func (c *Connections) makeRoom(bytes int64) bool {
	for c.taken-c.closing+bytes > c.limit {
		var largest *holder
		for _, h := range c.owners {
			if h.unused.Len() > 0 && (largest == nil || h.taken > largest.taken) {
				largest = h
			}
		}
		if largest == nil {
			return false
		}
		c.evict(largest.unused.Front().Value.(*connection))
	}
	return true
}

// evict closes a connection that is not in use. It counts until the server has noticed.
func (c *Connections) evict(conn *connection) {
	conn.holder.unused.Remove(conn.unused)
	conn.unused = nil
	conn.evicted = true
	c.closing += conn.bytes
	closedConnections.WithLabelValues(closedUnused).Inc()
	_ = conn.Conn.Close() // it is gone in any case
}

// remove is called once for each connection that was added, when it is closed.
func (c *Connections) remove(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	openConnections.Dec()
	if conn.holder == nil {
		return
	}
	if conn.evicted {
		c.closing -= conn.bytes
	}
	c.take(conn)
	c.closed.Broadcast()
}

// give counts a connection as an owner's.
func (c *Connections) give(conn *connection, to owner) {
	h := c.owners[to]
	if h == nil {
		h = &holder{owner: to}
		c.owners[to] = h
	}
	conn.holder = h
	h.count++
	h.taken += conn.bytes
	c.taken += conn.bytes
	takenBytes.Set(float64(c.taken))
	if conn.inUse > 0 {
		c.use(h, connectionCost)
	} else if !conn.evicted {
		conn.unused = h.unused.PushBack(conn)
	}
}

// use notes that connections in use take more, or less.
func (c *Connections) use(h *holder, bytes int64) {
	h.used += bytes
	c.used += bytes
}

// take undoes give.
func (c *Connections) take(conn *connection) {
	h := conn.holder
	conn.holder = nil
	if conn.inUse > 0 {
		c.use(h, -connectionCost)
	}
	if conn.unused != nil {
		h.unused.Remove(conn.unused)
		conn.unused = nil
	}
	h.taken -= conn.bytes
	c.taken -= conn.bytes
	takenBytes.Set(float64(c.taken))
	if h.count--; h.count == 0 {
		delete(c.owners, h.owner)
	}
}
