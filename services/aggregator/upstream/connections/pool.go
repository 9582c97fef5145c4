// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// MaxFew is how many connections requests may use that ask for Few.
const MaxFew = 64

const (
	// connectTimeout and handshakeTimeout bound the time that a request waits for a replica whose
	// host, or which itself, does not answer.
	connectTimeout   = 2 * time.Second
	handshakeTimeout = 2 * time.Second
	// keepAlive is the interval of TCP keep-alives.
	keepAlive = 30 * time.Second
	// idleTimeout is when a connection that nobody uses is closed. It is less than an API server's
	// (90 s), so that there is seldom a request on a connection that is being closed.
	idleTimeout = 60 * time.Second
)

// Wire is the kind of connection that a request needs.
type Wire int

const (
	// Multiplexed is an HTTP/2 connection, shared with others.
	Multiplexed Wire = iota
	// Exclusive is an HTTP/1.1 connection that no other request shares.
	Exclusive
	// Few is an exclusive connection, of which there are at most MaxFew for such requests.
	Few
	// Either is an exclusive connection if one is idle, and else a multiplexed one: a request does
	// not wait for a handshake that others have been through.
	Either
)

// Protocols, as ALPN and metrics call them.
const (
	protocolHTTP1 = "http/1.1"
	protocolHTTP2 = "h2"
)

// Protocols are the names by which Options.Observe hears of them.
var Protocols = []string{protocolHTTP1, protocolHTTP2}

// Pool is the connections to one replica.
type Pool struct {
	address string
	trust   *Trust
	options Options

	multiplexed multiplexed
	exclusive   exclusive

	// http1Only is set when the replica turned out not to speak HTTP/2 (--disable-http2-serving).
	http1Only atomic.Bool

	mu      sync.Mutex
	sockets map[*socket]struct{}
	retired bool
}

// Dial makes a TCP connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options are what a pool can do without.
type Options struct {
	// Dial makes TCP connections, if not the network's own is to.
	Dial Dial
	// Observe hears of each connection that is made (1) and closed (-1).
	Observe func(protocol string, change int)
	// Closed hears at once of each connection that is closed, by whom ever. It must not block.
	Closed func()
}

// New returns a pool without connections to a replica at an address, host:port.
func New(address string, trust *Trust, options Options) *Pool {
	if options.Dial == nil {
		dialer := net.Dialer{KeepAlive: keepAlive}
		options.Dial = dialer.DialContext
	}
	if options.Observe == nil {
		options.Observe = func(string, int) {}
	}
	if options.Closed == nil {
		options.Closed = func() {}
	}
	p := &Pool{address: address, trust: trust, options: options, sockets: map[*socket]struct{}{}}
	p.multiplexed.init(p)
	p.exclusive.init(p)
	return p
}

// RoundTrip sends the request to the replica, once. The URL's scheme and host must be set, but mean
// nothing here. An error is an *Error.
func (p *Pool) RoundTrip(req *http.Request, wire Wire) (*http.Response, error) {
	if req.Context().Err() != nil {
		return nil, abandon(req, ended(req.Context(), false))
	}
	// Over HTTP/1.1 net/http sends no host instead of an invalid one. Over HTTP/2 it refuses it.
	if wire == Either && !hasBlank(req) && httpguts.ValidHostHeader(req.Host) {
		if c := p.exclusive.idleOrLater(); c != nil {
			return p.exclusive.roundTrip(c, req)
		}
	}
	if wire != Exclusive && wire != Few {
		c, err := p.multiplexed.get(req.Context(), (*shared).reserve)
		switch {
		case err == nil:
			return p.multiplexed.roundTrip(c, req)
		case !errors.Is(err, errHTTP1Only):
			return nil, abandon(req, err)
		}
	}
	c, err := p.exclusive.get(req.Context(), wire == Few)
	if err != nil {
		return nil, abandon(req, err)
	}
	return p.exclusive.roundTrip(c, req)
}

// hasBlank reports whether the query has a blank, as it can have in HTTP/2. In HTTP/1.1 it would end
// the path.
func hasBlank(req *http.Request) bool { return strings.IndexByte(req.URL.RawQuery, ' ') >= 0 }

// abandon closes the body of a request for which there is no connection, as a RoundTripper has to.
func abandon(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close() // has no error that matters here
	}
	return err
}

var (
	errRetired   = errors.New("this is no replica any more")
	errHTTP1Only = errors.New("the replica does not speak HTTP/2")
)

// dial makes a connection. An error is an *Error.
func (p *Pool) dial(ctx context.Context, protocol string) (*socket, *tls.Conn, error) {
	s, conn, err := p.connect(ctx, protocol)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ended(ctx, false)
		}
		return nil, nil, &Error{Reason: Unreachable, Err: err}
	}
	return s, conn, nil
}

func (p *Pool) connect(ctx context.Context, protocol string) (*socket, *tls.Conn, error) {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	raw, err := p.options.Dial(connecting, "tcp", p.address)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	s, err := p.register(raw, protocol)
	if err != nil {
		_ = raw.Close() // nothing was sent
		return nil, nil, err
	}
	conn := tls.Client(s, s.material.configFor(protocol))
	ctx, cancel = context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = s.Close() // what counts is the error before
		return nil, nil, fmt.Errorf("TLS handshake with %s: %w", p.address, err)
	}
	if protocol == protocolHTTP2 && conn.ConnectionState().NegotiatedProtocol != protocolHTTP2 {
		_ = s.Close() // nothing was sent
		p.http1Only.Store(true)
		return nil, nil, errHTTP1Only
	}
	return s, conn, nil
}

// register makes the pool the owner of a new connection.
func (p *Pool) register(raw net.Conn, protocol string) (*socket, error) {
	s := &socket{Conn: raw, material: p.trust.current.Load(), onClose: func(s *socket) {
		p.mu.Lock()
		delete(p.sockets, s)
		p.mu.Unlock()
		p.options.Observe(protocol, -1)
		p.options.Closed()
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return nil, errRetired
	}
	p.sockets[s] = struct{}{}
	p.options.Observe(protocol, 1)
	return s, nil
}

// usable reports whether a connection may take another request.
func (p *Pool) usable(s *socket) bool {
	return !s.gone() && s.material == p.trust.current.Load()
}

// Answers asks the replica, below HTTP, whether it is alive. It is not when it is frozen, however long
// it has to do with what it was asked for.
func (p *Pool) Answers(ctx context.Context) error {
	err := p.multiplexed.ping(ctx)
	if !errors.Is(err, errHTTP1Only) {
		return err
	}
	// There is no ping; a handshake is the next best.
	c, err := p.exclusive.connect(ctx)
	if err == nil {
		c.Release()
		p.exclusive.put(c)
	}
	return err
}

// Break closes all connections at once, without asking the replica. The requests on them fail.
func (p *Pool) Break() {
	p.mu.Lock()
	sockets := make([]*socket, 0, len(p.sockets))
	for s := range p.sockets {
		sockets = append(sockets, s)
	}
	p.mu.Unlock()
	for _, s := range sockets {
		s.broken.Store(true)
		_ = s.Close() // nobody is left to tell
	}
}

// Tidy closes connections that nobody uses or should use.
func (p *Pool) Tidy() {
	if p.open() == 0 {
		// The next to listen there may speak HTTP/2.
		p.http1Only.Store(false)
	}
	p.exclusive.tidy()
	p.multiplexed.tidy()
}

// Retire closes every connection as soon as its requests are done, and makes no other. It returns
// when all are closed, or the context ends.
func (p *Pool) Retire(ctx context.Context) {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	p.Tidy()
	ticker := time.NewTicker(retireInterval)
	defer ticker.Stop()
	for p.open() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.Tidy()
		}
	}
}

// retireInterval is how often a pool that ends looks whether it has.
const retireInterval = 100 * time.Millisecond

func (p *Pool) retiring() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retired
}

func (p *Pool) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sockets)
}
