// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// cancelDelay is how long a request to a replica continues without an answer after its client is gone.
const cancelDelay = time.Second

// A client may cancel requests as fast as it can send them (CVE-2023-44487). If the aggregator cancelled them at the replica at once, the
// replica would close the connection, because handlers of cancelled requests still run. But other users share that connection.
//
// So the aggregator cancels a request at the replica after a second, or when the answer arrives. Meanwhile the user has less memory for
// other requests (package requestmemory). If too many such requests pile up on the client's connection, the aggregator closes it
// (x/net/http2).
//
// A request body that breaks off counts as a cancellation too. The aggregator cancels its own requests at once.

// outlast returns a copy of a request that continues for a while after its client is gone.
func outlast(req *http.Request) (*http.Request, *cancellation) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	if req.Context().Err() != nil {
		cancel() // the request was not sent, so there is nothing to delay
	}
	c := &cancellation{cancel: cancel, cancelled: ctx.Done()}
	if routing.Of(req).Owner != "" {
		c.delay = cancelDelay
	}
	c.stop = context.AfterFunc(req.Context(), c.clientGone)
	return req.WithContext(ctx), c
}

// cancellation cancels a request to a replica.
type cancellation struct {
	cancel context.CancelFunc
	// cancelled is closed when the request to the replica is cancelled.
	cancelled <-chan struct{}
	stop      func() bool
	// delay is how long the request continues after its client is gone.
	delay time.Duration

	mu sync.Mutex
	// gone is true once the client is gone, answered once the answer has arrived.
	gone, answered bool
	timer          *time.Timer
}

// clientGone cancels the request, now or after the delay.
func (c *cancellation) clientGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if c.answered || c.delay == 0 {
		c.cancel()
		return
	}
	c.timer = time.AfterFunc(c.delay, c.cancel)
}

// answer records that the answer has arrived. It returns false if the client is gone.
func (c *cancellation) answer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
	return !c.gone
}

// end says that the answer has ended, or that none came.
func (c *cancellation) end() {
	c.stop()
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.cancel()
}

// body returns a body whose errors arrive only after the delay, when the request is cancelled, or when the transport does not send it any
// more.
func (c *cancellation) body(of io.ReadCloser) io.ReadCloser {
	return &delayedErrors{ReadCloser: of, cancellation: c, closed: make(chan struct{})}
}

type delayedErrors struct {
	io.ReadCloser
	cancellation *cancellation
	close        sync.Once
	// closed is closed with the body, such as after the replica has reset the request.
	closed chan struct{}
}

func (b *delayedErrors) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		timer := time.NewTimer(b.cancellation.delay)
		defer timer.Stop()
		select {
		case <-b.closed:
		case <-b.cancellation.cancelled:
		case <-timer.C:
		}
	}
	return n, err
}

func (b *delayedErrors) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
