// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	// expectContinueTimeout is how long a client with "Expect: 100-continue" waits until the replica accepts or rejects its body.
	expectContinueTimeout = 10 * time.Second
	// maxFrame lets a replica send lists in large frames. With the default of 16 KiB they cost a fifth more processor time.
	maxFrame = 256 << 10
	// Window is how many bytes of an answer a replica may send before the client has received them. It limits the memory of a client that does
	// not read. The connection as a whole has no limit, because one slow request would then block the others.
	Window = 256 << 10
	// MaxHeader bounds the header of an answer, and trailers. By default it would be 10 MiB, which take twelve times as much memory.
	MaxHeader = 256 << 10
)

// multiplexed has the HTTP/2 connections of a pool. It makes another one when a replica accepts no more requests on the others (API servers
// accept 100 by default).
type multiplexed struct {
	pool      *Pool
	transport *http2.Transport
	// awaitsSettings makes a connection usable only when the settings of the replica are known. Until then nothing shows which headers are too
	// large for the replica, which would close the connection.
	awaitsSettings bool

	mu    sync.Mutex
	conns []*http2Conn
	// dialing is the connection that is being made, for all requests that wait for one.
	dialing *dialing
}

// http2Conn is an HTTP/2 connection.
type http2Conn struct {
	*http2.ClientConn
	socket *socket
	// silence belongs to the goroutine that tidies the pool.
	silence silence
}

// dialing is a connection that is being made. err is valid once done is closed.
type dialing struct {
	done chan struct{}
	err  error
}

func (m *multiplexed) init(p *Pool, awaitsSettings bool) {
	m.pool, m.awaitsSettings = p, awaitsSettings
	// x/net/http2 takes the window only from a transport of net/http. For a new transport there is no error.
	m.transport, _ = http2.ConfigureTransports(&http.Transport{
		HTTP2:                 &http.HTTP2Config{MaxReceiveBufferPerStream: Window},
		ExpectContinueTimeout: expectContinueTimeout,
	})
	// The transport must not add an Accept-Encoding to the client's.
	m.transport.DisableCompression = true
	m.transport.IdleConnTimeout = idleTimeout
	m.transport.MaxReadFrameSize = maxFrame
	m.transport.MaxHeaderListSize = MaxHeader
	// What takes no bytes would hold up the end of requests, too.
	m.transport.WriteByteTimeout = writeTimeout
}

func (m *multiplexed) roundTrip(c *http2Conn, req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTrip(req)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, ended(req.Context(), true)
		}
		return nil, &Error{Reason: multiplexedReason(err, c.socket.gone()), Err: err}
	}
	return resp, nil
}

// reserve takes a place for a request on the connection. It returns false if the connection is full.
func (c *http2Conn) reserve() bool { return c.ReserveNewRequest() }

// get returns a usable connection for which suits returns true, and makes one if necessary. The error is errHTTP1Only if the replica speaks
// only HTTP/1.1.
func (m *multiplexed) get(ctx context.Context, suits func(*http2Conn) bool) (*http2Conn, error) {
	for {
		if m.pool.http1Only.Load() {
			return nil, errHTTP1Only
		}
		c, d := m.find(suits)
		if c != nil {
			return c, nil
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, ended(ctx, false)
		}
	}
}

// find returns a connection for which suits returns true, or else the one that is being made.
func (m *multiplexed) find(suits func(*http2Conn) bool) (*http2Conn, *dialing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if m.pool.usable(c.socket) && suits(c) {
			return c, nil
		}
	}
	if m.dialing == nil {
		m.dialing = &dialing{done: make(chan struct{})}
		// All waiting requests share it, so it uses the context of none. Timeouts end it.
		go m.dial(m.dialing)
	}
	return nil, m.dialing
}

func (m *multiplexed) dial(d *dialing) {
	c, err := m.connect()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropGone()
	if err == nil {
		m.conns = append(m.conns, c)
	}
	d.err = err
	m.dialing = nil
	close(d.done)
}

func (m *multiplexed) connect() (*http2Conn, error) {
	s, conn, err := m.pool.dial(context.Background(), protocolHTTP2)
	if err != nil {
		return nil, err
	}
	c, err := m.transport.NewClientConn(newDelayed(&counted{Conn: conn}))
	if err != nil {
		_ = s.Close() // the first error counts
		return nil, &Error{Reason: Unreachable, Err: err}
	}
	if m.awaitsSettings {
		if err := m.awaitSettings(c); err != nil {
			_ = s.Close() // the first error counts
			return nil, &Error{Reason: Unsent, Err: err}
		}
	}
	return &http2Conn{ClientConn: c, socket: s}, nil
}

// awaitSettings waits until the replica answers a ping, which it does after it has sent its settings (RFC 9113, section 3.4).
func (m *multiplexed) awaitSettings(c *http2.ClientConn) error {
	ctx, cancel := m.pool.waiting(context.Background(), handshakeTimeout, longHandshakeTimeout)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		return fmt.Errorf("settings of HTTP/2: %w", timedOut(ctx, err))
	}
	return nil
}

func (m *multiplexed) dropGone() {
	m.conns = slices.DeleteFunc(m.conns, func(c *http2Conn) bool { return c.socket.gone() })
}

// ping sends a ping on any connection, and makes one if necessary.
func (m *multiplexed) ping(ctx context.Context) error {
	c, err := m.get(ctx, func(*http2Conn) bool { return true })
	if err != nil {
		return err
	}
	return c.Ping(ctx)
}

// tidy closes lost connections, and outdated ones without requests. Idle connections close themselves. Only one goroutine calls it.
func (m *multiplexed) tidy() {
	m.mu.Lock()
	m.dropGone()
	conns := slices.Clone(m.conns)
	m.mu.Unlock()
	for _, c := range conns {
		c.check(m.pool.Received())
		if !m.pool.retiring() && m.pool.usable(c.socket) {
			continue
		}
		c.SetDoNotReuse()
		if state := c.State(); state.StreamsActive+state.StreamsReserved+state.StreamsPending == 0 {
			_ = c.Close() // it is not in use
		}
	}
}
