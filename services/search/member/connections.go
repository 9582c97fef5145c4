// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// connectsAtOnce is how many requests wait for a new connection at a time. net/http opens one for each, of which HTTP/2 needs one in all.
	connectsAtOnce = 8
	// requestsOfConnection is how many requests a connection of HTTP/2 has to take, but for some connections. Each takes as much memory as a
	// watch. API servers take 100 or more.
	requestsOfConnection, spareConnections = 8, 16
	// idleConnections are those that a member may have beside one for each request.
	idleConnections = 32
	// receiveBuffer is half of what the kernel may keep of an answer by HTTP/1.1. It would keep megabytes.
	receiveBuffer = 16 << 10
)

// connections are those of a member. With HTTP/2, it says itself how many requests one takes.
type connections struct {
	// requests are those whose answers are not read to their end, open are connections, and carriers are those with an answer.
	requests, open, carriers atomic.Int64
	// connecting and inBulk are for requests that wait for a connection. Those that copy objects may be many.
	connecting, inBulk chan struct{}

	mu sync.Mutex
	// wires are those that are open.
	wires map[*wire]bool
}

func newConnections() *connections {
	return &connections{
		connecting: make(chan struct{}, connectsAtOnce), inBulk: make(chan struct{}, connectsAtOnce), wires: map[*wire]bool{},
	}
}

// opened notes a connection.
func (c *connections) opened(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wires[w] = true
}

// closed notes that a connection is closed.
func (c *connections) closed(w *wire) {
	c.open.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wires, w)
}

// end closes all connections, whatever is sent or read on them.
func (c *connections) end() {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.wires))
	c.mu.Unlock()
	for _, w := range all {
		w.Close() //nolint:errcheck // the member has ended
	}
}

// roomInterval is how often a new connection looks whether there is room for it.
const roomInterval = 20 * time.Millisecond

// awaitRoom waits until a member has fewer connections than it may have, and counts one more. net/http may open several for a request
// before it has one, and closes what it does not need.
func (c *connections) awaitRoom(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for {
		if now := c.open.Load(); now >= c.requests.Load()+idleConnections {
			sleep(ctx, roomInterval)
		} else if c.open.CompareAndSwap(now, now+1) {
			return nil
		}
		if ctx.Err() != nil {
			return limited("connections", "", "the API server takes no more requests on more than %d connections", idleConnections)
		}
	}
}

// carried is a request, which has a connection for some time.
type carried struct {
	of *connections

	// isConnected lets another request wait for a connection.
	isConnected func()

	mu sync.Mutex
	// on is its connection. isAnswered is set once it counts as one of the answers there.
	on         *wire
	isAnswered bool
	ended      bool
}

// send sends a request when it has a slot to wait for a connection. The answer has to be closed.
func (c *connections) send(by http.RoundTripper, slots chan struct{}, req *http.Request) (*http.Response, *carried, error) {
	select {
	case slots <- struct{}{}:
	case <-req.Context().Done():
		return nil, nil, context.Cause(req.Context())
	}
	sent := &carried{of: c, isConnected: sync.OnceFunc(func() { <-slots })}
	c.requests.Add(1)
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { sent.connected(got.Conn) }}
	resp, err := by.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if sent.isConnected(); err == nil {
		err = sent.check(resp)
	}
	if err != nil {
		sent.end()
		return nil, nil, err
	}
	return resp, sent, nil
}

// connected notes the connection of a request. It may get another one if that fails.
func (r *carried) connected(conn net.Conn) {
	r.isConnected()
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	on, is := conn.(*wire)
	if !is {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = on
}

// end says that the answer is read, or that there is none. It may be called again.
func (r *carried) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	r.of.requests.Add(-1)
	if r.isAnswered && r.on.answers.Add(-1) == 0 {
		r.of.carriers.Add(-1)
	}
}

// check refuses an answer by itself on its connection if there are too many such connections. HTTP/1.1 has one for each answer.
func (r *carried) check(resp *http.Response) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on == nil {
		return nil
	}
	if resp.ProtoMajor < 2 {
		return r.on.bound()
	}
	r.isAnswered = true
	if r.on.answers.Add(1) > 1 {
		return nil
	}
	most := spareConnections + r.of.requests.Load()/requestsOfConnection
	if r.of.carriers.Add(1) <= most {
		return nil
	}
	resp.Body.Close() //nolint:errcheck // it is not read
	return limited("connections", "", "the API server takes so few requests on a connection that search would need more than %d", most)
}

// bound bounds what the kernel keeps of what has come.
func (w *wire) bound() (err error) {
	w.bounded.Do(func() {
		if conn, is := w.Conn.(*net.TCPConn); is {
			err = conn.SetReadBuffer(receiveBuffer)
		}
	})
	return err
}
