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

// outlasting is how long a request to a replica outlasts that of the client while there is no answer.
const outlasting = time.Second

// A client may take back requests as fast as it can send them (CVE-2023-44487). If the aggregator did the same to the replica at once, the
// replica would close the connection, which other users share, because handlers of requests that were taken back are still running. So the
// request to the replica stays for a second, or until there is an answer. Meanwhile its user has less memory for others (package shares),
// and the aggregator closes the client's connection if too many such requests pile up on it (x/net/http2).
//
// A body that breaks off counts as taken back, too. Requests that the aggregator makes end at once.

// outlast returns a copy of a request that outlasts its client.
func outlast(req *http.Request) (*http.Request, *patience) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	p := &patience{cancel: cancel, over: ctx.Done()}
	if routing.Of(req).Owner != "" {
		p.grace = outlasting
	}
	p.stop = context.AfterFunc(req.Context(), p.begin)
	return req.WithContext(ctx), p
}

// patience is how a request to a replica ends.
type patience struct {
	cancel context.CancelFunc
	// over is closed when nobody waits any more.
	over <-chan struct{}
	stop func() bool
	// grace is how long it outlasts the client.
	grace time.Duration

	mu sync.Mutex
	// gone is set when the client is, and answered when there is an answer.
	gone, answered bool
	timer          *time.Timer
}

// begin is called when the client is gone.
func (p *patience) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if p.answered || p.grace == 0 {
		p.cancel()
		return
	}
	p.timer = time.AfterFunc(p.grace, p.cancel)
}

// answer is called when there is an answer. It returns false if nobody wants it.
func (p *patience) answer() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = true
	return !p.gone
}

// end is called when the answer has ended, or there is none.
func (p *patience) end() {
	p.stop()
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.cancel()
}

// body returns a body that does not break off at once.
func (p *patience) body(of io.ReadCloser) io.ReadCloser { return patientBody{of, p} }

type patientBody struct {
	io.ReadCloser
	patience *patience
}

func (b patientBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		timer := time.NewTimer(b.patience.grace)
		defer timer.Stop()
		select {
		case <-b.patience.over:
		case <-timer.C:
		}
	}
	return n, err
}
