// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// lean is an HTTP/1.1 connection for requests without a body, such as reads. net/http's has a goroutine that writes and one that
// reads, to which each request is handed; here all is done by the goroutine that sends the request. That is half of the work, and of the
// allocations, of sending one. What it cannot do is notice at once that an idle connection was closed: it looks when it is used again.
type lean struct {
	socket *socket
	conn   *counted
	peek   func() (pending bool, err error)
	head   *headLimit
	in     *bufio.Reader
	out    *bufio.Writer
	// used is set with the first request. Before, there may be session tickets to be read.
	used bool
	// over is set when there can be no other request.
	over atomic.Bool
}

var (
	errOver    = errors.New("the connection is closed")
	errHead    = errors.New("the headers of the answer are too long")
	errNotLean = errors.New("this connection is for requests without a body")
)

const (
	leanBuffer = 4 << 10
	// maxHead is how long the head of an answer may be, as in net/http.
	maxHead = 10 << 20
	// maxInformational is how many 1xx answers may come before the answer, as in net/http.
	maxInformational = 5
)

func newLean(s *socket, conn *counted) *lean {
	head := &headLimit{Reader: conn}
	return &lean{
		socket: s, conn: conn, peek: peeker(s.Conn),
		head: head, in: bufio.NewReaderSize(head, leanBuffer), out: bufio.NewWriterSize(conn, leanBuffer),
	}
}

// headLimit ends with an error when the head of an answer does not end.
type headLimit struct {
	io.Reader
	// left is how many bytes may come: some while a head is read, else any number.
	left int
}

func (h *headLimit) Read(p []byte) (int, error) {
	if h.left <= 0 {
		return 0, errHead
	}
	n, err := h.Reader.Read(p[:min(len(p), h.left)])
	h.left -= n
	return n, err
}

// Available returns how many requests can be sent.
func (l *lean) Available() int {
	if l.over.Load() || l.socket.gone() {
		return 0
	}
	return 1
}

// Reserve returns an error if the connection was closed while nobody used it.
func (l *lean) Reserve() error {
	if l.Available() == 0 || l.in.Buffered() > 0 {
		return errOver
	}
	pending, err := l.peek()
	if err != nil {
		return err
	}
	if pending && l.used {
		return errOver // nothing was asked for: it says goodbye
	}
	return nil
}

// Release is the opposite of Reserve.
func (l *lean) Release() {}

// Close closes the connection. Somebody who uses it gets an error.
func (l *lean) Close() error {
	l.over.Store(true)
	return l.conn.Close()
}

// longAgo is a deadline that ends reading and writing.
var longAgo = time.Unix(1, 0)

// RoundTrip sends a request. The connection is in use until the end of the answer's body.
func (l *lean) RoundTrip(req *http.Request) (*http.Response, error) {
	if !isLean(req) {
		return nil, errNotLean
	}
	l.used = true
	stop := context.AfterFunc(req.Context(), func() {
		l.over.Store(true)
		_ = l.socket.SetDeadline(longAgo) // what it is for fails by itself where this does
	})
	resp, err := l.exchange(req)
	if err != nil {
		stop()
		l.over.Store(true)
		return nil, err
	}
	if resp.Close {
		l.over.Store(true)
	}
	if resp.Body == http.NoBody {
		l.finish(stop)
		return resp, nil
	}
	resp.Body = &leanBody{body: resp.Body, lean: l, stop: stop}
	return resp, nil
}

// finish ends the use of the connection. When it was just interrupted it cannot be used again.
func (l *lean) finish(stop func() bool) {
	if !stop() {
		l.over.Store(true)
	}
}

func (l *lean) exchange(req *http.Request) (*http.Response, error) {
	if err := writeHead(l.out, req); err != nil {
		return nil, err
	}
	if err := l.out.Flush(); err != nil {
		return nil, err
	}
	l.head.left = maxHead
	defer func() { l.head.left = math.MaxInt }()
	for range maxInformational + 1 {
		resp, err := http.ReadResponse(l.in, req)
		if err != nil {
			return nil, err
		}
		switch {
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the replica changes the protocol, which was not asked for")
		case resp.StatusCode >= http.StatusOK:
			return resp, nil
		}
		// What comes before the answer is about the connection, or hints that nobody asked for.
	}
	return nil, errors.New("the replica does not come to its answer")
}

// isLean reports whether a request is for such a connection.
func isLean(req *http.Request) bool {
	return (req.Body == nil || req.Body == http.NoBody) && (req.Method == http.MethodGet || req.Method == http.MethodHead) && len(req.Trailer) == 0
}

// writeHead writes the request line and the headers as net/http does.
func writeHead(w *bufio.Writer, req *http.Request) error {
	target, host := req.URL.RequestURI(), req.Host
	if hasControl(target) {
		return errors.New("invalid control character in the URL of a request")
	}
	if !httpguts.ValidHostHeader(host) {
		return errors.New("invalid host of a request")
	}
	for _, part := range []string{req.Method, " ", target, " HTTP/1.1\r\nHost: ", host, "\r\n"} {
		_, _ = w.WriteString(part) // Flush tells the error
	}
	for name, values := range req.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("invalid name of a header: %q", name)
		}
		for _, value := range values {
			if value == "" && name == "User-Agent" {
				continue // none is to be sent
			}
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("invalid value of header %q", name)
			}
			for _, part := range [...]string{name, ": ", value, "\r\n"} {
				_, _ = w.WriteString(part) // Flush tells the error
			}
		}
	}
	_, err := w.WriteString("\r\n")
	return err
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// leanBody is the body of an answer. At its end the connection can be used again; if it is closed before, it cannot.
type leanBody struct {
	body io.Reader
	lean *lean
	stop func() bool
	end  error
}

func (b *leanBody) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.body.Read(p)
	if err != nil {
		b.end = err
		if !errors.Is(err, io.EOF) {
			b.lean.over.Store(true)
		}
		b.lean.finish(b.stop)
	}
	return n, err
}

func (b *leanBody) Close() error {
	if b.end == nil {
		b.end = http.ErrBodyReadAfterClose
		b.lean.over.Store(true)
		b.lean.finish(b.stop)
	}
	return nil
}
