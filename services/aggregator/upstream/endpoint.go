// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// endpoint is a replica of a backend: one process at one address.
type endpoint struct {
	// address is host:port.
	address string
	pool    *connections.Pool
	load    *balance.Endpoint
	metrics *endpointMetrics
	waiting waiting
	// sharedWatches is nil if watches share nothing.
	sharedWatches *sharedWatches
	// hidesHost is true if the Host header must have the replica's address instead of the client's host name.
	hidesHost bool

	// health is guarded by the lock of the backend.
	health health
	// servesUntil is how long the message counts by which the feed last reported the replica as serving. It is nil if the last message
	// reported it as not serving, or the feed is lost.
	servesUntil atomic.Pointer[time.Time]
	// quiet is true while the replica sends fewer messages, and disturbed is signalled at the first request then.
	quiet     atomic.Bool
	disturbed chan struct{}
	// feedMessages counts the messages of the feed.
	feedMessages atomic.Uint64
	// doubted is signalled when the replica must be probed at once.
	doubted chan struct{}
	// removed is closed when the replica is removed.
	removed chan struct{}
}

func (b *Backend) newEndpoint(address string) *endpoint {
	e := &endpoint{
		address: address,
		load:    balance.NewEndpoint(address),
		metrics: newEndpointMetrics(b.name, address),
		doubted: make(chan struct{}, 1),
		removed: make(chan struct{}),

		disturbed: make(chan struct{}, 1),
	}
	// An aggregated API server sees its own address as the host, as with kube-aggregator. Core and extensions see the client's host: core
	// passes it on to pods, and uses it in links.
	e.hidesHost = b.checks.byConnection
	options := connections.Options{Dial: b.dial, Observe: e.metrics.connection, Patient: func() bool { return !b.Spare(address) }}
	if b.checks.byConnection {
		options.Closed = func() { signal(e.doubted) }
	}
	e.pool = connections.New(address, b.trust, options)
	if b.sharesWatches {
		e.sharedWatches = &sharedWatches{pool: e.pool, metrics: e.metrics}
	}
	return e
}

// roundTrip sends the request to this replica. The request counts as in flight until the body of the answer ends. body, if not nil,
// replaces the body of the request.
func (e *endpoint) roundTrip(req *http.Request, body io.ReadCloser, kind balance.Kind, wire connections.Wire) (*http.Response, error) {
	out, cancellation := outlast(req)
	x := &exchange{endpoint: e, kind: kind, started: time.Now(), cancellation: cancellation}
	if kind == balance.Short {
		out = out.WithContext(e.waiting.begin(out.Context(), x))
	}
	target := *req.URL
	target.Scheme, target.Host = "https", e.address
	out.URL = &target
	if e.hidesHost || out.Host == "" {
		out.Host = e.address
	}
	if body != nil {
		// Without GetBody, no transport retries the request on its own.
		out.Body, out.GetBody = cancellation.body(body), nil
	}
	watch := e.sharedWatches.join(out, wire)

	e.load.Begin(kind)
	e.disturb()
	e.metrics.begin(kind)
	resp, err := e.pool.Send(out, wire, func() {
		if !routing.Of(req).Repeatable {
			e.waiting.end(x)
		}
	})
	e.waiting.end(x)
	if err == nil && (resp.StatusCode < 100 || resp.StatusCode > 999) { // x/net/http2 accepts such a status
		err = &connections.Error{Reason: connections.Broken, Err: fmt.Errorf("the replica answers with the status %d", resp.StatusCode)}
		_ = resp.Body.Close() // it is not read
	}
	if err != nil {
		watch.cancel()
		x.end()
		return nil, err
	}
	watch.begin(out.Context(), resp)
	x.status = resp.StatusCode
	if !cancellation.answer() {
		if resp.ContentLength >= 0 {
			forget(resp)
		} else {
			_ = resp.Body.Close() // it is not read
		}
		x.end()
		return nil, &connections.Error{Reason: connections.Unknown, Err: req.Context().Err()}
	}
	if isRejection(resp.StatusCode) {
		e.load.Penalize()
	}
	x.follow(resp)
	return resp, nil
}

// isRejection reports whether a status means that the replica is overloaded or unhealthy.
func isRejection(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	return false
}

// exchange is a request and its answer.
type exchange struct {
	endpoint     *endpoint
	kind         balance.Kind
	started      time.Time
	cancellation *cancellation
	// status is 0 until the answer arrives.
	status int
	ended  atomic.Bool
	// release ends the context of a request that waits for its answer (see waiting). It is nil for others.
	release context.CancelCauseFunc
}

func (x *exchange) end() {
	if x.ended.Swap(true) {
		return
	}
	if x.release != nil {
		x.release(nil)
	}
	x.cancellation.end()
	x.endpoint.load.End(x.kind)
	x.endpoint.metrics.end(x.kind, x.status, time.Since(x.started))
}

// follow makes the exchange end with the body of the answer.
func (x *exchange) follow(resp *http.Response) {
	if both, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &tunnel{both, x}
		return
	}
	if resp.Body == http.NoBody {
		x.end()
		return
	}
	resp.Body = &answer{resp.Body, x}
}

// answer is the body of an answer.
type answer struct {
	io.ReadCloser
	exchange *exchange
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.exchange.end()
	}
	return n, err
}

func (a *answer) Close() error {
	a.exchange.end()
	return a.ReadCloser.Close()
}

// tunnel is the connection after an answer 101.
type tunnel struct {
	io.ReadWriteCloser
	exchange *exchange
}

func (t *tunnel) Close() error {
	t.exchange.end()
	return t.ReadWriteCloser.Close()
}

// CloseWrite half-closes the tunnel.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}
