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

	"github.com/tripod-k8s/tripod/base/hop/attention"
)

// MaxFew is the number of connections that requests for Few may use.
const MaxFew = 64

const (
	// connectTimeout and handshakeTimeout limit how long a request waits for a connection and its handshake if another replica is better.
	connectTimeout   = 2 * time.Second
	handshakeTimeout = 2 * time.Second
	// longConnectTimeout and longHandshakeTimeout take their place if none is. The kernel of the host accepts connections, however busy the
	// replica is, so a host that does not is lost. A handshake may take long, and a busy replica gets more to do if it must begin anew.
	longConnectTimeout   = 10 * time.Second
	longHandshakeTimeout = time.Minute
	// patientInterval is the time between two questions which of them counts.
	patientInterval = 500 * time.Millisecond
	// keepAlive is the time between TCP keep-alive probes.
	keepAlive = 30 * time.Second
	// idleTimeout is how long a connection may stay unused. It is shorter than an API server's 90 s, so that a request seldom meets a
	// connection that the server is closing.
	idleTimeout = 60 * time.Second
	// writeTimeout is how long a connection may take no byte that waits to be sent.
	writeTimeout = 30 * time.Second
)

// Wire is the kind of connection that a request needs.
type Wire int

const (
	// Multiplexed is a shared HTTP/2 connection.
	Multiplexed Wire = iota
	// Exclusive is an HTTP/1.1 connection for one request at a time.
	Exclusive
	// Few is an exclusive connection too, but requests for Few use no more than MaxFew.
	Few
	// Either is an idle exclusive connection, or else a multiplexed one. So a request need not wait for a handshake.
	Either
	// Isolated is a multiplexed connection for requests because of which the replica may close it.
	Isolated
	// Probes is a multiplexed connection that no request of a client uses.
	Probes
)

// The names of the protocols in ALPN and metrics.
const (
	protocolHTTP1 = "http/1.1"
	protocolHTTP2 = "h2"
)

// Protocols are the names that Options.Observe gets.
var Protocols = []string{protocolHTTP1, protocolHTTP2}

// Pool has the connections to one replica.
type Pool struct {
	address string
	trust   *Trust
	options Options

	multiplexed multiplexed
	// isolated and probes serve requests for Isolated and Probes, and few those for Few if the replica speaks only HTTP/2.
	isolated, probes, few multiplexed
	exclusive             exclusive

	// http1Only is true after the replica turned out not to speak HTTP/2 (--disable-http2-serving), and http2Only after it turned out not to
	// speak HTTP/1.1. speaksHTTP2 is true after it agreed on HTTP/2.
	http1Only, http2Only, speaksHTTP2 atomic.Bool
	// received counts reads of all connections.
	received atomic.Uint64

	mu      sync.Mutex
	sockets map[*socket]struct{}
	retired bool
}

// Dial makes a TCP connection. net.Dialer.DialContext has this type.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options are optional settings of a pool.
type Options struct {
	// Dial makes TCP connections. If it is nil, net.Dialer does.
	Dial Dial
	// Observe gets 1 for each new connection, and -1 for each closed one.
	Observe func(protocol string, change int)
	// Patient reports whether to wait longer for a handshake, because no other replica is better. It may be nil.
	Patient func() bool
	// Closed is called at once when a connection closes, whichever end closed it. It must not block.
	Closed func()
}

// New returns a pool for the replica at an address, host:port. It has no connections yet.
func New(address string, trust *Trust, options Options) *Pool {
	if options.Dial == nil {
		dialer := net.Dialer{KeepAlive: keepAlive}
		options.Dial = dialer.DialContext
	}
	if options.Observe == nil {
		options.Observe = func(string, int) {}
	}
	if options.Patient == nil {
		options.Patient = func() bool { return false }
	}
	if options.Closed == nil {
		options.Closed = func() {}
	}
	p := &Pool{address: address, trust: trust, options: options, sockets: map[*socket]struct{}{}}
	p.multiplexed.init(p, false)
	p.isolated.init(p, true)
	p.probes.init(p, false)
	p.few.init(p, true)
	p.exclusive.init(p)
	return p
}

// RoundTrip sends the request to the replica, once. The URL must have a scheme and a host, but they have no effect. The error is an *Error.
func (p *Pool) RoundTrip(req *http.Request, wire Wire) (*http.Response, error) {
	return p.Send(req, wire, func() {})
}

// Send is RoundTrip. It calls sending before the replica may receive a part of the request.
func (p *Pool) Send(req *http.Request, wire Wire, sending func()) (*http.Response, error) {
	if req.Context().Err() != nil {
		return nil, abandon(req, ended(req.Context(), false))
	}
	// With an invalid host, net/http sends an empty one over HTTP/1.1, but returns an error over HTTP/2.
	if wire == Either && !hasBlank(req) && httpguts.ValidHostHeader(req.Host) {
		if c := p.exclusive.idleOrLater(); c != nil {
			sending()
			return p.exclusive.roundTrip(c, req)
		}
	}
	if wire != Exclusive && wire != Few {
		resp, err := p.sendMultiplexed(p.setFor(wire), req, sending)
		if !errors.Is(err, errHTTP1Only) {
			return resp, err
		}
	}
	if wire == Few {
		return p.sendFew(req, sending)
	}
	return p.sendExclusive(req, false, sending)
}

// setFor returns the multiplexed connections that serve a wire.
func (p *Pool) setFor(wire Wire) *multiplexed {
	switch wire {
	case Isolated:
		return &p.isolated
	case Probes:
		return &p.probes
	case Few:
		return &p.few
	}
	return &p.multiplexed
}

// sets are all multiplexed connections.
func (p *Pool) sets() []*multiplexed {
	return []*multiplexed{&p.multiplexed, &p.isolated, &p.probes, &p.few}
}

// sendMultiplexed leaves the body alone if it returns errHTTP1Only.
func (p *Pool) sendMultiplexed(m *multiplexed, req *http.Request, sending func()) (*http.Response, error) {
	c, err := m.get(req.Context(), (*http2Conn).reserve)
	switch {
	case errors.Is(err, errHTTP1Only):
		return nil, err
	case err != nil:
		return nil, abandon(req, err)
	}
	sending()
	return m.roundTrip(c, req)
}

// sendExclusive leaves the body alone if it returns errHTTP2Only to a request for Few.
func (p *Pool) sendExclusive(req *http.Request, few bool, sending func()) (*http.Response, error) {
	c, err := p.exclusive.get(req.Context(), few)
	switch {
	case few && errors.Is(err, errHTTP2Only):
		return nil, err
	case err != nil:
		return nil, abandon(req, err)
	}
	sending()
	return p.exclusive.roundTrip(c, req)
}

// sendFew sends a request for Few over HTTP/1.1, or over connections of its kind if the replica speaks only HTTP/2.
func (p *Pool) sendFew(req *http.Request, sending func()) (*http.Response, error) {
	resp, err := p.sendExclusive(req, true, sending)
	if !errors.Is(err, errHTTP2Only) {
		return resp, err
	}
	if !p.exclusive.beginFew() {
		return nil, abandon(req, &Error{Reason: Full, Err: errFull})
	}
	resp, err = p.sendMultiplexed(p.setFor(Few), req, sending)
	switch {
	case errors.Is(err, errHTTP1Only):
		p.exclusive.endFew()
		return nil, abandon(req, err)
	case err != nil:
		p.exclusive.endFew()
		return nil, err
	}
	resp.Body = &content{ReadCloser: resp.Body, over: p.exclusive.endFew}
	return resp, nil
}

// hasBlank reports whether the query contains a blank. HTTP/2 allows that. In HTTP/1.1 the blank would end the path.
func hasBlank(req *http.Request) bool { return strings.IndexByte(req.URL.RawQuery, ' ') >= 0 }

// abandon closes the body of a request without a connection, as every RoundTripper must, and returns err.
func abandon(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close() // its error does not matter
	}
	return err
}

var (
	errRetired   = errors.New("this is no replica any more")
	errHTTP1Only = errors.New("the replica does not speak HTTP/2")
	errHTTP2Only = errors.New("the replica speaks only HTTP/2")
)

// dial makes a connection. Its error is an *Error.
func (p *Pool) dial(ctx context.Context, protocol string) (*socket, *tls.Conn, error) {
	s, conn, err := p.connect(ctx, protocol)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ended(ctx, false)
		}
		if errors.Is(err, errHTTP2Only) {
			return nil, nil, &Error{Reason: Unsupported, Err: err}
		}
		return nil, nil, &Error{Reason: Unreachable, Err: err}
	}
	return s, conn, nil
}

func (p *Pool) connect(ctx context.Context, protocol string) (*socket, *tls.Conn, error) {
	connecting, cancel := p.waiting(ctx, connectTimeout, longConnectTimeout)
	raw, err := p.options.Dial(connecting, "tcp", p.address)
	err = timedOut(connecting, err)
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
	ctx, cancel = p.waiting(ctx, handshakeTimeout, longHandshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = s.Close() // the first error counts
		if protocol == protocolHTTP1 && strings.HasSuffix(err.Error(), noProtocol) {
			p.http2Only.Store(true)
			return nil, nil, errHTTP2Only
		}
		return nil, nil, fmt.Errorf("TLS handshake with %s: %w", p.address, timedOut(ctx, err))
	}
	switch agreed := conn.ConnectionState().NegotiatedProtocol; {
	case protocol == protocolHTTP1:
	case agreed == protocolHTTP2:
		p.speaksHTTP2.Store(true)
	default:
		_ = s.Close() // nothing was sent
		p.http1Only.Store(true)
		return nil, nil, errHTTP1Only
	}
	return s, conn, nil
}

// noProtocol ends the error of a handshake with a server that does not speak the protocol (RFC 7301, section 3.2). crypto/tls does not
// export it.
const noProtocol = "tls: no application protocol"

// waiting returns a context for a step of making a connection. It ends after so much time, or after a longer one if no other replica is
// better.
func (p *Pool) waiting(ctx context.Context, short, long time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	waited := short
	timer := attention.AfterFunc(short, func() (again time.Duration) {
		if waited < long && !p.retiring() && p.options.Patient() {
			waited += patientInterval
			return patientInterval
		}
		cancel(context.DeadlineExceeded)
		return 0
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// timedOut returns the error of a step, which is another one if its time was up.
func timedOut(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// register adds a new connection to the pool.
func (p *Pool) register(raw net.Conn, protocol string) (*socket, error) {
	s := &socket{Conn: raw, made: time.Now(), received: &p.received, material: p.trust.current.Load(), onClose: func(s *socket) {
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

// Answers pings the replica. A frozen replica does not answer. A busy one does, however much work it has.
func (p *Pool) Answers(ctx context.Context) error {
	err := p.multiplexed.ping(ctx)
	if !errors.Is(err, errHTTP1Only) {
		return err
	}
	// HTTP/1.1 has no ping; a handshake comes closest.
	c, err := p.exclusive.connect(ctx)
	if err == nil {
		c.Release()
		p.exclusive.put(c)
	}
	return err
}

// Break closes all connections at once, without a notice to the replica. Their requests fail.
func (p *Pool) Break() {
	for _, s := range p.allSockets() {
		s.breakOff()
	}
}

// Tidy closes connections that are idle for too long or outdated.
func (p *Pool) Tidy() {
	if p.open() == 0 {
		// The next server at this address may speak other protocols.
		p.http1Only.Store(false)
		p.http2Only.Store(false)
		p.speaksHTTP2.Store(false)
	}
	p.exclusive.tidy()
	for _, m := range p.sets() {
		m.tidy()
	}
}

// Retire closes each connection when its requests are done, and makes no new ones. It returns when all are closed, or when the context
// ends.
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

// retireInterval is the time between two looks for connections that Retire can close.
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
