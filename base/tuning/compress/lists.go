// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package compress

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// These are the constants of k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.
const (
	// level is the level of gzip.
	level = 1
	// threshold is the largest answer in bytes that is sent uncompressed.
	threshold = 128 << 10
	// opening is the size in bytes up to which a first write is the opening of an answer that is written in pieces. Any other first write is
	// the whole answer.
	opening = 4
)

var (
	writers = sync.Pool{New: func() any {
		w, err := gzip.NewWriterLevel(nil, level)
		if err != nil {
			panic(err) // the level is a constant
		}
		return w
	}}
	buffers = sync.Pool{New: func() any { return &buffer{} }}
)

type buffer struct{ data []byte }

// Lists makes a handler compress large lists for clients that accept gzip. Serializers behind it do not see what the client accepts. Call
// it only if the feature gate APIResponseCompression is on, and inside of the filter that finds the RequestInfo.
func Lists(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !lists(req) || !accepted(req.Header.Get("Accept-Encoding")) {
			handler.ServeHTTP(w, req)
			return
		}
		req.Header.Del("Accept-Encoding")
		a := &answer{ResponseWriter: w}
		// Not deferred: what a handler wrote before it panicked must not look complete.
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(a), req)
		a.finish()
	})
}

func lists(req *http.Request) bool {
	info, ok := request.RequestInfoFrom(req.Context())
	return ok && req.Method == http.MethodGet && info.IsResourceRequest && info.Verb == "list" && info.Subresource == ""
}

// accepted applies the rule of k8s.io/apiserver, which knows no weights.
func accepted(encodings string) bool {
	for encoding := range strings.SplitSeq(encodings, ",") {
		if strings.TrimSpace(encoding) == "gzip" {
			return true
		}
	}
	return false
}

// answer decides with the first bytes of an answer whether to compress it.
type answer struct {
	http.ResponseWriter
	// status is the status of the answer, or 0 as long as the handler has not set it.
	status int
	// waiting has the bytes that wait for the decision. It may be nil.
	waiting *buffer
	// body takes the answer. It is nil before the decision.
	body io.Writer
	// compressor is nil if the answer is not compressed.
	compressor *gzip.Writer
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	switch {
	case a.body != nil || code < http.StatusOK:
		a.ResponseWriter.WriteHeader(code)
	case a.status == 0:
		a.status = code
	}
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	switch {
	case a.body != nil:
	case a.waiting == nil && len(p) > opening:
		a.begin(len(p) > threshold)
	case a.wait(p):
		return len(p), nil
	default:
		a.begin(true)
		if err := a.release(); err != nil {
			return 0, err
		}
	}
	return a.body.Write(p)
}

// wait keeps p for later, unless the answer is now large enough to be compressed.
func (a *answer) wait(p []byte) bool {
	if a.waiting == nil {
		a.waiting = buffers.Get().(*buffer)
	}
	if len(a.waiting.data)+len(p) > threshold {
		return false
	}
	a.waiting.data = append(a.waiting.data, p...)
	return true
}

// begin decides, and sends the header.
func (a *answer) begin(large bool) {
	a.body = a.ResponseWriter
	header := a.Header()
	if large && len(header["Content-Encoding"]) == 0 && len(header["Content-Length"]) == 0 {
		header.Set("Content-Encoding", "gzip")
		header.Add("Vary", "Accept-Encoding")
		a.compressor = writers.Get().(*gzip.Writer)
		a.compressor.Reset(a.ResponseWriter)
		a.body = a.compressor
	}
	if a.status != 0 {
		a.ResponseWriter.WriteHeader(a.status)
	}
}

// release sends what waited.
func (a *answer) release() error {
	if a.waiting == nil {
		return nil
	}
	_, err := a.body.Write(a.waiting.data)
	a.waiting.data = a.waiting.data[:0]
	buffers.Put(a.waiting)
	a.waiting = nil
	return err
}

// finish completes the answer. If the connection is broken, net/http has seen the error.
func (a *answer) finish() {
	if a.body == nil {
		a.begin(false)
	}
	_ = a.release()
	if a.compressor == nil {
		return
	}
	_ = a.compressor.Close()
	a.compressor.Reset(nil)
	writers.Put(a.compressor)
	a.compressor, a.body = nil, a.ResponseWriter
}

// Flush implements http.Flusher. An answer that is flushed before it is large is not compressed.
func (a *answer) Flush() {
	if a.body == nil {
		a.begin(false)
	}
	_ = a.release()
	if a.compressor != nil {
		_ = a.compressor.Flush()
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
