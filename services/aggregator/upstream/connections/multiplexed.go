// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	// pingAfter is how long nothing is heard on a connection before the other end is asked whether
	// it is there, and pingTimeout how long it may take to say so. Together they bound how long a
	// request waits for a replica that is frozen or cut off.
	pingAfter   = 2 * time.Second
	pingTimeout = 2 * time.Second
	// expectContinueTimeout is how long a client that says "Expect: 100-continue" waits for a replica to want its body, or to refuse it.
	expectContinueTimeout = 10 * time.Second
	// maxFrame lets a replica send a list in large pieces. The default of 16 KiB costs a fifth more.
	maxFrame = 256 << 10
	// Window is how much of an answer a replica may send before the client has taken it. It bounds the memory that a client takes
	// that does not read. There is no bound for all requests on a connection, or one of them could hold up the others.
	Window = 256 << 10
)

// multiplexed is the HTTP/2 connections of a pool. There is more than one when a replica allows no
// more requests on the others (100 is the default of API servers).
type multiplexed struct {
	pool      *Pool
	transport *http2.Transport

	mu    sync.Mutex
	conns []*shared
	// dialing is the connection that is being made, for all who wait for one.
	dialing *dialing
}

// shared is an HTTP/2 connection.
type shared struct {
	*http2.ClientConn
	socket *socket
}

// dialing is a connection that is being made. The error is set when done is closed.
type dialing struct {
	done chan struct{}
	err  error
}

func (m *multiplexed) init(p *Pool) {
	m.pool = p
	// x/net/http2 takes the window from a transport of net/http only, and has no error for a new one.
	m.transport, _ = http2.ConfigureTransports(&http.Transport{
		HTTP2:                 &http.HTTP2Config{MaxReceiveBufferPerStream: Window},
		ExpectContinueTimeout: expectContinueTimeout,
	})
	// The client's Accept-Encoding is the one that counts.
	m.transport.DisableCompression = true
	m.transport.ReadIdleTimeout = pingAfter
	m.transport.PingTimeout = pingTimeout
	m.transport.IdleConnTimeout = idleTimeout
	m.transport.MaxReadFrameSize = maxFrame
}

func (m *multiplexed) roundTrip(c *shared, req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTrip(req)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, ended(req.Context(), true)
		}
		return nil, &Error{Reason: multiplexedReason(err, c.socket.gone()), Err: err}
	}
	return resp, nil
}

// reserve takes a place for a request on the connection, if it has one.
func (c *shared) reserve() bool { return c.ReserveNewRequest() }

// get returns a usable connection that suits, and makes one if there is none. The error is
// errHTTP1Only where there can be none.
func (m *multiplexed) get(ctx context.Context, suits func(*shared) bool) (*shared, error) {
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

// find returns a connection that suits, or else one that is being made.
func (m *multiplexed) find(suits func(*shared) bool) (*shared, *dialing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if m.pool.usable(c.socket) && suits(c) {
			return c, nil
		}
	}
	if m.dialing == nil {
		m.dialing = &dialing{done: make(chan struct{})}
		// On behalf of all who wait, so not in the name of one of them. It ends by its timeouts.
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

func (m *multiplexed) connect() (*shared, error) {
	s, conn, err := m.pool.dial(context.Background(), protocolHTTP2)
	if err != nil {
		return nil, err
	}
	c, err := m.transport.NewClientConn(newDelayed(&counted{Conn: conn}))
	if err != nil {
		_ = s.Close() // what counts is the error before
		return nil, &Error{Reason: Unreachable, Err: err}
	}
	return &shared{c, s}, nil
}

func (m *multiplexed) dropGone() {
	m.conns = slices.DeleteFunc(m.conns, func(c *shared) bool { return c.socket.gone() })
}

// ping asks the replica on one connection whether it is there, and makes one if there is none.
func (m *multiplexed) ping(ctx context.Context) error {
	c, err := m.get(ctx, func(*shared) bool { return true })
	if err != nil {
		return err
	}
	return c.Ping(ctx)
}

// tidy closes connections that are outdated once nobody uses them. Those that are idle close themselves.
func (m *multiplexed) tidy() {
	m.mu.Lock()
	m.dropGone()
	outdated := slices.Clone(m.conns)
	m.mu.Unlock()
	for _, c := range outdated {
		if !m.pool.retiring() && m.pool.usable(c.socket) {
			continue
		}
		c.SetDoNotReuse()
		if state := c.State(); state.StreamsActive+state.StreamsReserved+state.StreamsPending == 0 {
			_ = c.Close() // nobody uses it
		}
	}
}
