// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// maxWarm limits the connections made in advance, for reads that find none idle, and the idle ones that the pool keeps.
	maxWarm = 64
	// maxWarming limits the connections that are being made in advance at the same time.
	maxWarming = 4
)

// exclusive has the HTTP/1.1 connections of a pool.
type exclusive struct {
	pool *Pool
	// dial makes a connection. Its error is an *Error.
	dial func(context.Context) (*connection, error)

	mu sync.Mutex
	// idle are the connections without a request. The last one was used most recently.
	idle []*connection
	// open counts all connections except tunnels. warming counts those that are being made in advance.
	open, warming int
	// few counts the connections in use by requests that asked for Few.
	few int
}

// connection is an HTTP/1.1 connection.
type connection struct {
	*http.ClientConn
	socket  *socket
	counted *counted
	// agreed is true if the handshake agreed on HTTP/1.1.
	agreed bool
	// idleSince is when its last request ended.
	idleSince time.Time
	// few is true if its current request asked for Few.
	few bool
}

type dialedKey struct{}

func (e *exclusive) init(p *Pool) {
	e.pool = p
	transport := &http.Transport{
		// The transport must not add an Accept-Encoding to the client's.
		DisableCompression:    true,
		ExpectContinueTimeout: expectContinueTimeout,
		// A longer one breaks the connection.
		MaxResponseHeaderBytes: MaxHeader,
		// The pool knows the address. The caller gets the connection and its parts.
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			s, conn, err := p.dial(ctx, protocolHTTP1)
			if err != nil {
				return nil, err
			}
			c, _ := ctx.Value(dialedKey{}).(*connection)
			c.socket, c.counted = s, &counted{Conn: conn}
			c.agreed = conn.ConnectionState().NegotiatedProtocol == protocolHTTP1
			return c.counted, nil
		},
	}
	e.dial = func(ctx context.Context) (*connection, error) {
		c := &connection{}
		var err error
		if c.ClientConn, err = transport.NewClientConn(context.WithValue(ctx, dialedKey{}, c), "https", p.address); err != nil {
			return nil, err
		}
		return c, nil
	}
}

var errFull = errors.New("too many requests of this kind")

// suits reports whether the replica speaks HTTP/1.1 on a connection, as far as is known. A server that agrees on HTTP/2 and does not agree
// on HTTP/1.1 may close such a connection when it gets a request.
func (e *exclusive) suits(c *connection) bool {
	if c.agreed || !e.pool.speaksHTTP2.Load() {
		return true
	}
	e.pool.http2Only.Store(true)
	return false
}

// get returns a connection for one request. The error is errHTTP2Only if the replica speaks only HTTP/2. A request that is not for Few gets
// a connection even if it does not suit, because only HTTP/1.1 has tunnels.
func (e *exclusive) get(ctx context.Context, few bool) (*connection, error) {
	if !few {
		if c := e.take(); c != nil {
			return c, nil
		}
		return e.connect(ctx)
	}
	if !e.beginFew() {
		return nil, &Error{Reason: Full, Err: errFull}
	}
	c, err := e.getFew(ctx)
	if err != nil {
		e.endFew()
		return nil, err
	}
	c.few = true
	return c, nil
}

func (e *exclusive) getFew(ctx context.Context) (*connection, error) {
	if c := e.take(); c != nil {
		return c, nil
	}
	if e.pool.http2Only.Load() {
		return nil, errHTTP2Only
	}
	c, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	if !e.suits(c) {
		e.drop(c)
		return nil, errHTTP2Only
	}
	return c, nil
}

func (e *exclusive) beginFew() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.few >= MaxFew {
		return false
	}
	e.few++
	return true
}

func (e *exclusive) endFew() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.few--
}

// end records that the request on a connection has ended.
func (e *exclusive) end(c *connection) {
	if c.few {
		c.few = false
		e.endFew()
	}
}

// idleOrLater returns an idle connection. If there is none, it returns nil, and makes a connection in the background for later reads.
func (e *exclusive) idleOrLater() *connection {
	if c := e.take(); c != nil {
		return c
	}
	if e.pool.http2Only.Load() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open < maxWarm && e.warming < maxWarming {
		e.warming++
		e.open++
		go e.warm() // timeouts end it
	}
	return nil
}

func (e *exclusive) take() *connection {
	for {
		e.mu.Lock()
		last := len(e.idle) - 1
		if last < 0 {
			e.mu.Unlock()
			return nil
		}
		c := e.idle[last]
		e.idle[last] = nil
		e.idle = e.idle[:last]
		e.mu.Unlock()
		if e.pool.usable(c.socket) && e.suits(c) && c.Reserve() == nil {
			return c
		}
		e.drop(c)
	}
}

func (e *exclusive) warm() {
	c, err := e.dial(context.Background())
	e.mu.Lock()
	e.warming--
	if err != nil {
		e.open--
	}
	e.mu.Unlock()
	if err == nil {
		e.put(c)
	}
}

func (e *exclusive) connect(ctx context.Context) (*connection, error) {
	c, err := e.dial(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.open++
	e.mu.Unlock()
	if err := c.Reserve(); err != nil {
		e.drop(c)
		return nil, &Error{Reason: Unsent, Err: err}
	}
	return c, nil
}

// put makes the connection idle, if it can take another request.
func (e *exclusive) put(c *connection) {
	e.end(c)
	if c.Available() == 0 || !e.pool.usable(c.socket) || !e.suits(c) || e.pool.retiring() {
		e.drop(c)
		return
	}
	c.idleSince = time.Now()
	e.mu.Lock()
	enough := len(e.idle) >= maxWarm
	if !enough {
		e.idle = append(e.idle, c)
	}
	e.mu.Unlock()
	if enough {
		e.drop(c)
	}
}

func (e *exclusive) drop(c *connection) {
	e.end(c)
	_ = c.Close() // it is not in use
	e.forget()
}

func (e *exclusive) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open--
}

func (e *exclusive) roundTrip(c *connection, req *http.Request) (*http.Response, error) {
	if hasBlank(req) {
		req = withoutBlanks(req)
	}
	before := c.counted.sent.Load()
	c.counted.awaitHeader()
	resp, err := c.RoundTrip(req)
	c.counted.awaiting.Store(false)
	if err != nil {
		sent := c.counted.sent.Load() != before
		e.drop(c)
		switch {
		case req.Context().Err() != nil:
			return nil, ended(req.Context(), true)
		case !sent:
			return nil, &Error{Reason: Unsent, Err: err}
		}
		return nil, &Error{Reason: Broken, Err: err}
	}
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols && req.Header["Upgrade"] == nil:
		resp.Body.Close() //nolint:errcheck // this closes the connection
		e.end(c)
		e.forget()
		return nil, &Error{Reason: Broken, Err: errors.New("the replica changes the protocol without being asked")}
	case resp.StatusCode == http.StatusSwitchingProtocols:
		e.end(c)
		e.forget() // the connection is a tunnel now; closing the body closes it
	case resp.Body == http.NoBody:
		e.put(c)
	default:
		resp.Body = &content{ReadCloser: resp.Body, over: func() { e.put(c) }}
	}
	return resp, nil
}

// withoutBlanks returns the request with blanks in its query escaped.
func withoutBlanks(req *http.Request) *http.Request {
	escaped, target := *req, *req.URL
	target.RawQuery = strings.ReplaceAll(target.RawQuery, " ", "%20")
	escaped.URL = &target
	return &escaped
}

// tidy closes connections that were idle for too long, or may not take requests any more.
func (e *exclusive) tidy() {
	now := time.Now()
	var unused []*connection
	e.mu.Lock()
	kept := e.idle[:0]
	for _, c := range e.idle {
		if e.pool.retiring() || !e.pool.usable(c.socket) || now.Sub(c.idleSince) > idleTimeout {
			unused = append(unused, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(e.idle[len(kept):])
	e.idle = kept
	e.mu.Unlock()
	for _, c := range unused {
		e.drop(c)
	}
}

// content is the body of an answer. When it ends, the connection becomes idle.
type content struct {
	io.ReadCloser
	once sync.Once
	over func()
}

func (b *content) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(b.over)
	}
	return n, err
}

func (b *content) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.over)
	return err
}
