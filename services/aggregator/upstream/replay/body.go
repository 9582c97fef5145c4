// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replay lets the aggregator send the body of a request more than once, without delaying the first time. It records the body while
// it is sent, up to a limit. It does not read ahead.
package replay

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// Limit is how many bytes of a body are recorded. Nearly all objects are smaller. A longer body can be sent again only if none of it was
// read.
const Limit = 64 << 10

// Body is the body of a request, for several attempts one after the other. A nil Body is that of a request without a body.
type Body struct {
	source io.ReadCloser
	limit  int

	mu sync.Mutex
	// recorded is everything read from source, unless lost is set.
	recorded []byte
	lost     bool
	// reading is true during a read from source, which may take as long as the client likes.
	reading bool
	// end is the error with which source ended. It is io.EOF after all of it was read.
	end error
	// current is the only attempt that may read.
	current *attempt
	// settled is true if no more attempts will follow.
	settled bool
	closed  bool
}

// New returns the body of the request for replay, or nil if the request has none.
func New(req *http.Request) *Body {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	b := &Body{source: req.Body, limit: Limit}
	if req.ContentLength > Limit {
		b.limit = 0
	}
	return b
}

// Replayable reports whether another attempt can send the body from its beginning. The previous attempt must be over.
func (b *Body) Replayable() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.settled && !b.lost && !b.reading && (b.end == nil || errors.Is(b.end, io.EOF))
}

// Complete reports whether all of the body has been read.
func (b *Body) Complete() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Is(b.end, io.EOF)
}

// Err returns the error with which reading the body failed, or nil. The client caused it, not the server.
func (b *Body) Err() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(b.end, io.EOF) {
		return nil
	}
	return b.end
}

// Next returns the body for another attempt. It must be Replayable.
func (b *Body) Next() io.ReadCloser {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = &attempt{body: b}
	return b.current
}

// Settle ends the recording, because the last attempt got an answer. This attempt may continue to read while the answer is sent. Closing it
// closes the source.
func (b *Body) Settle() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.settled = true
	over := b.current == nil || b.current.closed
	b.mu.Unlock()
	if over {
		b.Close()
	}
}

// Close closes the source. It is for a request without an answer or more attempts.
func (b *Body) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	closed := b.closed
	b.closed, b.settled = true, true
	b.mu.Unlock()
	if !closed {
		_ = b.source.Close() // its error does not matter
	}
}

// attempt reads the body from its beginning.
type attempt struct {
	body   *Body
	offset int
	closed bool
}

var (
	errSuperseded = errors.New("the request is being sent again")
	errClosed     = errors.New("the body of the request was closed")
)

// Read reads the recorded bytes first, and then from the source.
func (a *attempt) Read(p []byte) (int, error) {
	b := a.body
	if n, err := a.readRecorded(p); n > 0 || err != nil || len(p) == 0 {
		return n, err
	}
	n, err := b.source.Read(p)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.end = err
	b.record(p[:n])
	a.offset += n
	return n, err
}

// readRecorded reads recorded bytes. If it returns neither bytes nor an error, the caller must read from the source.
func (a *attempt) readRecorded(p []byte) (int, error) {
	b := a.body
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.closed:
		return 0, errClosed
	case b.current != a:
		return 0, errSuperseded
	case a.offset < len(b.recorded):
		n := copy(p, b.recorded[a.offset:])
		a.offset += n
		return n, nil
	case b.end != nil:
		return 0, b.end
	}
	b.reading = len(p) > 0
	return 0, nil
}

func (b *Body) record(p []byte) {
	if b.lost || len(p) == 0 {
		return
	}
	if b.settled || len(b.recorded)+len(p) > b.limit {
		b.lost, b.recorded = true, nil
		return
	}
	b.recorded = append(b.recorded, p...)
}

// Close implements io.Closer. The transport calls it when it is done with the body.
func (a *attempt) Close() error {
	b := a.body
	b.mu.Lock()
	a.closed = true
	over := b.settled && b.current == a
	b.mu.Unlock()
	if over {
		b.Close()
	}
	return nil
}
