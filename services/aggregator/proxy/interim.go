// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"slices"
)

// finalAnswer drops interim answers (1xx) of a backend. httputil.ReverseProxy would pass them on with the headers that the aggregator's own
// handlers have set, and then clear these. The server of the client says "100 Continue" by itself when the body is read, and backends send
// no other.
type finalAnswer struct {
	http.ResponseWriter
	// header is that of an answer of the backend. It is nil once the final answer has begun.
	header http.Header
}

// Unwrap is for http.ResponseController.
func (w *finalAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Header implements http.ResponseWriter.
func (w *finalAnswer) Header() http.Header {
	if w.header == nil {
		return w.ResponseWriter.Header()
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *finalAnswer) WriteHeader(code int) {
	if code < http.StatusOK {
		return
	}
	own := w.ResponseWriter.Header()
	for name, values := range w.header {
		own[name] = slices.Concat(own[name], values)
	}
	w.header = nil
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *finalAnswer) Write(p []byte) (int, error) {
	if w.header != nil {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
