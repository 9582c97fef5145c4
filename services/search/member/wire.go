// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// headerSize bounds the header of an answer, and what follows its body. HTTP/2 counts 32 bytes more for each field.
	headerSize = 8 << 10
	// streamBuffer is what a member may send of an answer before search reads it.
	streamBuffer = 32 << 10
	// frameSize bounds a frame of HTTP/2, which has to be in memory as a whole.
	frameSize = 16 << 10
	// overheadAtOnce are the bytes that a member may send at once beside the bodies of answers, and overheadPerSecond in the long run.
	overheadAtOnce, overheadPerSecond = 4 << 20, 64 << 10
	// overheadShare is the part of the bodies that frames and TLS may take besides.
	overheadShare = 4
)

// overhead are bytes that came on the connections of a member and are in no body: frames of HTTP/2 that belong to no answer cost processor,
// and no request ends by them. Bytes of bodies count until search has read them.
type overhead struct {
	most float64

	mu    sync.Mutex
	bytes float64
	at    time.Time
}

// connectionBuffer returns what so many answers on one connection may send before search reads it. It has room for all of them: answers
// that wait for memory must not keep others from coming.
func connectionBuffer(answers int) int { return int(min(int64(answers)*streamBuffer, 1<<30)) }

// newOverhead returns the overhead of a member with so many answers at once.
func newOverhead(answers int) *overhead {
	return &overhead{most: overheadAtOnce + float64(answers)*streamBuffer}
}

// count counts bytes that came, and reports whether they are too many.
func (o *overhead) count(n int) (tooMany bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !o.at.IsZero() {
		o.bytes = max(o.bytes-now.Sub(o.at).Seconds()*overheadPerSecond, 0)
	}
	o.at = now
	o.bytes += float64(n)
	return o.bytes > o.most
}

// isBody says that search has read so many bytes of a body.
func (o *overhead) isBody(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes = max(o.bytes-float64(n)-float64(n)/overheadShare, 0)
}

// wire is a connection with a member.
type wire struct {
	net.Conn
	*overhead
	of *connections
	// answers are those that come on it.
	answers         atomic.Int64
	bounded, closed sync.Once
}

// newWire returns a connection, which counts until it is closed.
func newWire(conn net.Conn, of *connections, overhead *overhead) *wire {
	w := &wire{Conn: conn, overhead: overhead, of: of}
	of.opened(w)
	return w
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.closed.Do(func() { w.of.closed(w) })
	return w.Conn.Close()
}

// Read implements net.Conn.
func (w *wire) Read(into []byte) (int, error) {
	n, err := w.Conn.Read(into)
	if w.count(n) {
		w.Close() //nolint:errcheck // it is not used any more
		return 0, limited("overhead", "", "the API server sends more than %d bytes that belong to no answer, and then more than %d a second",
			overheadAtOnce, overheadPerSecond)
	}
	return n, err
}

// wireBody is a body as it comes.
type wireBody struct {
	io.ReadCloser
	*overhead
	// sent is its request.
	sent *carried
}

// Close implements io.Closer.
func (b *wireBody) Close() error {
	b.sent.end()
	return b.ReadCloser.Close()
}

// Read implements io.Reader.
func (b *wireBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.isBody(n)
	return n, err
}

// keepLittle drops what search does not read of an answer. Streams keep theirs as long as they last.
func keepLittle(resp *http.Response) {
	header := http.Header{}
	for _, name := range []string{"Content-Encoding", "Content-Type"} {
		if value := resp.Header.Get(name); value != "" {
			header.Set(name, value)
		}
	}
	resp.Header = header
}
