// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// Nearly all requests are for objects, and answered by the backend's own handlers: without 1xx, without trailers, without a change of
// protocol. They do not need all that httputil.ReverseProxy can do, which was a tenth of the work of the aggregator for a small
// request. What arrives is the same. BenchmarkForward compares them.

// servePlain forwards a plain request. It takes over the headers of the request.
func (f *Forwarder) servePlain(w http.ResponseWriter, req *http.Request, class *routing.Request, transport http.RoundTripper,
	m *measurement) {
	out := *req
	out.Close = false
	prepareHeaders(req.Context(), out.Header)
	if req.ContentLength == 0 {
		out.Body = nil
	} else if req.Body != nil {
		body := &requestBody{body: req.Body}
		// The sender of the request may go on when the answer is complete, and the request has ended.
		defer body.Close() //nolint:errcheck // returns none
		out.Body = body
	}
	resp, err := transport.RoundTrip(&out)
	if err != nil {
		f.fail(w, req, err)
		return
	}
	removeHopByHop(resp.Header)
	m.take(resp)
	resp.Request = req
	if err := f.adapt(resp); err != nil {
		_ = resp.Body.Close() // what counts is the error before
		f.fail(w, req, err)
		return
	}
	header := w.Header()
	for name, values := range resp.Header {
		if own, ok := header[name]; ok {
			values = slices.Concat(own, values)
		}
		header[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	var copied int64
	if class.Kind == routing.Watch {
		copied, err = copyEvents(w, resp.Body)
	} else {
		copied, err = copyAll(w, resp.Body)
	}
	_ = resp.Body.Close() // all of it was read, or the error before counts
	if m.size = resp.ContentLength; m.size < 0 {
		m.size = copied
	}
	if err != nil {
		klog.V(4).InfoS("An answer was broken off", "backend", f.name, "path", req.URL.Path, "err", err)
		abort(req)
	}
}

// prepareHeaders makes the headers of the client those of a request of the aggregator.
func prepareHeaders(ctx context.Context, header http.Header) {
	trailers := httpguts.HeaderValuesContainsToken(header["Te"], "trailers")
	for _, name := range hopByHop {
		delete(header, name)
	}
	if trailers {
		header["Te"] = []string{"trailers"}
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // and not that of net/http
	}
	setAuditID(ctx, header)
}

// removeHopByHop removes from an answer what is about the connection to the backend.
func removeHopByHop(header http.Header) {
	for _, name := range hopByHop {
		delete(header, name)
	}
}

// requestBody is the body of a client's request. The client's connection is not for the transport to close, and is read no more when the
// request has ended.
type requestBody struct {
	body  io.Reader
	ended atomic.Bool
}

var errEnded = errors.New("the request has ended")

func (b *requestBody) Read(p []byte) (int, error) {
	if b.ended.Load() {
		return 0, errEnded
	}
	return b.body.Read(p)
}

func (b *requestBody) Close() error {
	b.ended.Store(true)
	return nil
}

// copyAll passes on an answer that ends by itself, and returns its size. No client waits for its parts, so none is pushed to the client
// early.
func copyAll(w http.ResponseWriter, body io.Reader) (size int64, err error) {
	buffer := copyBuffers.Get()
	defer copyBuffers.Put(buffer)
	for {
		n, err := readFull(body, *buffer)
		size += int64(n)
		if n > 0 {
			if _, werr := w.Write((*buffer)[:n]); werr != nil {
				return size, werr
			}
		}
		if err != nil {
			return size, ignoreEOF(err)
		}
	}
}

// readFull reads until the buffer is full: large writes cost less than many small ones.
func readFull(body io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var m int
		m, err = body.Read(buffer[n:])
		n += m
	}
	return n, err
}

// eventBuffer is large enough for most events. Watches that wait hold on to no more.
const eventBuffer = 4 << 10

// copyEvents passes on each event when it comes, and returns the size of all.
func copyEvents(w http.ResponseWriter, body io.Reader) (size int64, err error) {
	// That nothing arrives any more shows when the next event is written.
	flush := func() { _ = http.NewResponseController(w).Flush() }
	flush()
	buffer := make([]byte, eventBuffer)
	for {
		n, err := body.Read(buffer)
		size += int64(n)
		if n > 0 {
			if _, werr := w.Write(buffer[:n]); werr != nil {
				return size, werr
			}
			flush()
		}
		if err != nil {
			return size, ignoreEOF(err)
		}
		if n == len(buffer) && n < bufferSize {
			buffer = make([]byte, 2*n)
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
