// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"bufio"
	"net"
	"net/http"
	"sync"
)

// size is the size of a piece in bytes. net/http sends each 4 KiB of a smaller piece on its own.
const size = 32 << 10

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, size) }}

// Answers makes a handler send its answers to HTTP/1.1 requests in large pieces, except what it flushes. The serializers of API servers
// write a list object by object, and net/http sends it in pieces of 4 KiB. A list of 500 ConfigMaps would take 150 TLS records, and as many
// system calls in both processes.
func Answers(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		own, ok := w.(connection)
		if !ok || req.ProtoMajor != 1 {
			handler.ServeHTTP(w, req)
			return
		}
		a := &answer{connection: own}
		// Not deferred: what a handler wrote is of no use before it panicked.
		handler.ServeHTTP(a, req)
		_ = a.send() // where the connection is broken net/http has seen it
	})
}

// connection has the interfaces of net/http's writers of HTTP/1.1 answers that handlers look for.
type connection interface {
	http.ResponseWriter
	http.Flusher
	http.Hijacker
	http.CloseNotifier //nolint:staticcheck // filters of k8s.io/apiserver take a writer for one that cannot be flushed where it is missing
}

type answer struct {
	connection
	// begun is set with the status. Later headers have no effect.
	begun bool
	// direct is set if the answer states its length. net/http rejects a longer answer, and must see each piece to do so.
	direct bool
	// buffer is nil while nothing waits to be sent.
	buffer *bufio.Writer
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if !a.begun && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		a.begin()
	}
	a.connection.WriteHeader(code)
}

func (a *answer) begin() {
	a.begun = true
	_, a.direct = a.Header()["Content-Length"]
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	if a.direct {
		return a.connection.Write(p)
	}
	if a.buffer == nil {
		a.buffer = buffers.Get().(*bufio.Writer)
		a.buffer.Reset(a.connection)
	}
	return a.buffer.Write(p)
}

// send passes on what was written, and drops the buffer. A long answer, such as a watch, has no buffer while it waits.
func (a *answer) send() error {
	if a.buffer == nil {
		return nil
	}
	err := a.buffer.Flush()
	a.buffer.Reset(nil)
	buffers.Put(a.buffer)
	a.buffer = nil
	return err
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError implements what http.ResponseController looks for.
func (a *answer) FlushError() error {
	if !a.begun {
		a.begin() // net/http sends the status with it
	}
	if err := a.send(); err != nil {
		return err
	}
	return http.NewResponseController(a.connection).Flush()
}

// Hijack implements http.Hijacker.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := a.send(); err != nil {
		return nil, nil, err
	}
	return a.connection.Hijack()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.connection }
