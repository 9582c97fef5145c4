// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/tripod-k8s/tripod/services/aggregator/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/connections"
)

const (
	// maxHeld is how much of an answer is held back at most. Few objects are larger.
	maxHeld = 256 << 10
	// maxHolding bounds the answers that are held back at a time, and so the memory for them.
	maxHolding = 128
)

// hold waits for the answer to a short read to be complete, or too long to wait for. Until then the
// client has got nothing, and if the connection breaks the request can be sent again. The error is one
// of package connections; the answer is closed then.
func (c *call) hold(resp *http.Response) error {
	if !c.backend.holds || !c.about.safe || c.about.balance.Kind != balance.Short || resp.Body == http.NoBody || resp.ContentLength > maxHeld {
		return nil
	}
	holding := &c.backend.holding
	if holding.Add(1) > maxHolding {
		holding.Add(-1)
		return nil
	}
	begin, complete, err := readUpTo(resp.Body, int(resp.ContentLength), maxHeld)
	if err != nil {
		holding.Add(-1)
		_ = resp.Body.Close() // it is broken
		return connections.Break(err)
	}
	held := &heldBody{begin: begin, release: sync.OnceFunc(func() { holding.Add(-1) })}
	if complete {
		_ = resp.Body.Close() // it was read to its end
	} else {
		held.rest = resp.Body
	}
	resp.Body = held
	return nil
}

// readUpTo reads a body, which is known to be that long or (-1) not, to its end or a limit.
func readUpTo(body io.Reader, length, limit int) (begin []byte, complete bool, err error) {
	const initial = 4 << 10
	if length < 0 {
		length = initial
	}
	// One more byte than expected, so that the end is seen.
	begin = make([]byte, 0, length+1)
	for len(begin) < limit {
		if len(begin) == cap(begin) {
			begin = append(begin, 0)[:len(begin)]
		}
		n, err := body.Read(begin[len(begin):min(cap(begin), limit)])
		begin = begin[:len(begin)+n]
		switch {
		case errors.Is(err, io.EOF):
			return begin, true, nil
		case err != nil:
			return nil, false, err
		}
	}
	return begin, false, nil
}

// heldBody is an answer whose beginning was held back.
type heldBody struct {
	begin []byte
	// rest is nil when the beginning is all.
	rest    io.ReadCloser
	release func()
	closed  atomic.Bool
}

func (h *heldBody) Read(p []byte) (int, error) {
	if h.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(h.begin) > 0 {
		n := copy(p, h.begin)
		h.begin = h.begin[n:]
		return n, nil
	}
	h.release()
	if h.rest == nil {
		return 0, io.EOF
	}
	return h.rest.Read(p)
}

// Held returns what was held back and was not read yet, which is read then.
func (h *heldBody) Held() []byte {
	if h.closed.Load() {
		return nil
	}
	begin := h.begin
	h.begin = nil
	return begin
}

func (h *heldBody) Close() error {
	h.closed.Store(true)
	h.release()
	if h.rest == nil {
		return nil
	}
	return h.rest.Close()
}
