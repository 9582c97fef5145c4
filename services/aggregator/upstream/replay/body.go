// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replay sends the body of a request more than once without holding it up: what was sent is
// recorded on its way, up to a limit, and nothing is read ahead.
package replay

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// Limit is how many bytes of a body are recorded. A longer body can be sent again only while none
// of it was read. Nearly all objects are smaller.
const Limit = 64 << 10

// Body is the body of a request that may be sent several times, one after the other. The methods of
// a nil Body are those of a request without one.
type Body struct {
	source io.ReadCloser
	limit  int

	mu sync.Mutex
	// recorded is all that was read from the source, unless something is lost.
	recorded []byte
	lost     bool
	// reading is set while the source is read, which can take as long as the client likes.
	reading bool
	// end is the error that the source ended with: io.EOF when all of it was read.
	end error
	// current is the attempt that may read.
	current *attempt
	// settled is set when there will be no other attempt.
	settled bool
	closed  bool
}

// New returns the body of the request for replay, or nil if it has none.
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

// Replayable reports whether the body can be sent once more, from its beginning. The attempt before
// must be over.
func (b *Body) Replayable() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.settled && !b.lost && !b.reading && (b.end == nil || errors.Is(b.end, io.EOF))
}

// Complete reports whether all of the body has been read: nobody is in the middle of sending it.
func (b *Body) Complete() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Is(b.end, io.EOF)
}

// Err returns the error that reading the body ended with, and nil if it ended well or goes on. It is
// the client's doing, and not the server's.
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

// Next returns the body for another attempt, which must be Replayable.
func (b *Body) Next() io.ReadCloser {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = &attempt{body: b}
	return b.current
}

// Settle ends the recording: the last attempt has an answer. It may go on reading while the answer
// is sent, and the source is closed when it is closed.
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

// Close closes the source: there is no other attempt, and no answer.
func (b *Body) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	closed := b.closed
	b.closed, b.settled = true, true
	b.mu.Unlock()
	if !closed {
		_ = b.source.Close() // the body of a request has no error that matters here
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

// Read reads what was recorded, and then on from the source.
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

// readRecorded reads what need not be read from the source. Where it returns nothing at all, the
// source is to be read.
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

// Close is called by the transport when it is done with the body.
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
