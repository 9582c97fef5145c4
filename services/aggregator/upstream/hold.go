// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const (
	// maxHeld limits the bytes of an answer that are held back. Few objects are larger.
	maxHeld = 256 << 10
	// maxHolding limits the number of answers that are held back at a time, and so their memory.
	maxHolding = 128
)

// hold waits until the answer to a short request is complete, or too long to hold. Until then the client receives nothing. So if the
// connection breaks, the aggregator can retry a read, and can answer that a write may have been carried out. The error is one of
// package connections, and hold has then closed the answer.
func (c *call) hold(resp *http.Response) error {
	if !c.mayHold(resp) {
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
		_ = resp.Body.Close() // the connection is broken
		return connections.Break(err)
	}
	held := &heldBody{holding: holding, begin: begin}
	if complete {
		_ = resp.Body.Close() // read to its end
	} else {
		held.rest = resp.Body
	}
	resp.Body = held
	return nil
}

// mayHold reports whether to hold an answer back. It accepts answers of known, small length. If the length is unknown, it accepts answers
// of Tripod's services to reads. An aggregated API server may be sending a stream.
func (c *call) mayHold(resp *http.Response) bool {
	if !c.class.Holdable || resp.Body == http.NoBody || resp.ContentLength > maxHeld {
		return false
	}
	return resp.ContentLength > 0 || (c.backend.holds && c.class.Repeatable)
}

// Buffers returns how many bytes of an answer the aggregator may have received without passing them on.
func Buffers(resp *http.Response) int64 {
	if held, ok := resp.Body.(*heldBody); ok && held.rest == nil {
		return int64(len(held.begin))
	}
	if resp.Body == http.NoBody {
		return 0
	}
	const most = maxHeld + connections.Window
	if resp.ContentLength < 0 {
		return most
	}
	return min(resp.ContentLength, most)
}

// readUpTo reads a body until its end or a limit. length is the known length, or -1.
func readUpTo(body io.Reader, length, limit int) (begin []byte, complete bool, err error) {
	const initial = 4 << 10
	if length < 0 {
		length = initial
	}
	// One more byte than expected lets Read return the end.
	begin = make([]byte, 0, length+1)
	for len(begin) < limit {
		if len(begin) == cap(begin) {
			begin = slices.Grow(begin, min(3*len(begin), limit-len(begin)))
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

// heldBody is the body of an answer that was held back.
type heldBody struct {
	// rest is what follows begin, or nil.
	rest io.ReadCloser
	// holding counts the answers that are held back.
	holding *atomic.Int64

	mu    sync.Mutex
	begin []byte
	// released is true once the answer no longer counts.
	released, closed bool
}

func (h *heldBody) Read(p []byte) (int, error) {
	n, err := h.readHeld(p)
	if n > 0 || err != nil || len(p) == 0 {
		return n, err
	}
	if h.rest == nil {
		return 0, io.EOF
	}
	return h.rest.Read(p)
}

func (h *heldBody) readHeld(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(h.begin) == 0 {
		h.release()
		return 0, nil
	}
	n := copy(p, h.begin)
	h.begin = h.begin[n:]
	return n, nil
}

func (h *heldBody) release() {
	if !h.released {
		h.released = true
		h.holding.Add(-1)
	}
}

func (h *heldBody) Close() error {
	h.mu.Lock()
	h.begin, h.closed = nil, true
	h.release()
	h.mu.Unlock()
	if h.rest == nil {
		return nil
	}
	return h.rest.Close()
}
