// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
)

// creditPart is the part of the window after which a watch gives credit.
const creditPart = 4

// Body is the body of an answer that arrives in a session.
type Body struct {
	receiver *Receiver
	watch    uint64
	// client is the name of the client's connection.
	client string
	// own is the body of the answer outside the session. It stays empty.
	own io.Closer
	// stop ends the wait for the end of the request.
	stop func() bool

	mu      sync.Mutex
	changed sync.Cond
	// chunks have arrived. The first offset bytes of the first one were read.
	chunks [][]byte
	offset int
	// held is what the chunks cost of the window, and taken what the sender has no credit for yet, though it was read.
	held, taken int
	// err comes after the chunks.
	err error
}

var errClosed = errors.New("the body of the watch is closed")

// Begin makes the body that of an answer to a request with this context. It returns false if the replica does not send it in the session.
func (b *Body) Begin(ctx context.Context, resp *http.Response, session string) bool {
	accepted := resp.Header.Get(envelope.WatchesHeader) == b.Value(session)
	if resp.StatusCode != http.StatusOK || !accepted {
		b.Cancel()
		return false
	}
	b.own = resp.Body
	b.stop = context.AfterFunc(ctx, func() { b.end(ctx.Err()) })
	resp.Body = b
	return true
}

// Value is the value of the header with which a watch joins the session.
func (b *Body) Value(session string) string { return session + "/" + strconv.FormatUint(b.watch, 10) }

// Cancel removes a watch that got no answer.
func (b *Body) Cancel() { b.receiver.remove(b) }

// receive appends a chunk, unless the watch has ended. It returns how many bytes the watch receives, and false if that is more than the
// window.
func (b *Body) receive(chunk []byte) (n int, fits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, true
	}
	b.held += b.receiver.limits.cost(chunk)
	if b.held > b.receiver.limits.window {
		return 0, false
	}
	b.chunks = append(b.chunks, chunk)
	if len(b.chunks) == 1 {
		b.changed.Signal()
	}
	return len(chunk), true
}

// end makes err come after the chunks that have arrived.
func (b *Body) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		b.changed.Broadcast()
	}
}

// Read implements io.Reader. It returns whole chunks where they fit.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b.mu.Lock()
	for len(b.chunks) == 0 && b.err == nil {
		b.changed.Wait()
	}
	n, credit := b.take(p)
	err := b.err
	b.mu.Unlock()
	if credit > 0 {
		b.receiver.credit(b, credit)
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// take copies chunks to p. It returns the credit that the sender is to have, if it is enough to be worth sending.
func (b *Body) take(p []byte) (n, credit int) {
	done := 0
	for _, chunk := range b.chunks {
		rest := chunk[b.offset:]
		if n > 0 && n+len(rest) > len(p) {
			break
		}
		copied := copy(p[n:], rest)
		n += copied
		if copied < len(rest) {
			b.offset += copied
			break
		}
		b.offset = 0
		done++
		b.taken += b.receiver.limits.cost(chunk)
	}
	if done == len(b.chunks) {
		b.chunks = nil // an idle watch has no memory for more
	} else {
		clear(b.chunks[:done])
		b.chunks = b.chunks[done:]
	}
	if b.taken >= b.receiver.limits.window/creditPart {
		credit, b.taken = b.taken, 0
		b.held -= credit
	}
	return n, credit
}

// Close implements io.Closer.
func (b *Body) Close() error {
	b.receiver.remove(b)
	b.mu.Lock()
	b.chunks, b.err = nil, errClosed
	b.changed.Broadcast()
	b.mu.Unlock()
	if b.stop == nil {
		return nil
	}
	b.stop()
	return b.own.Close()
}
