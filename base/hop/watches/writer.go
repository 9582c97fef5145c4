// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"net/http"
	"sync"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
)

// small is the size of a write that waits for the next one. Protobuf writes the length of an event before the event.
const small = 64

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// answer has the interfaces of HTTP/2 answers that handlers look for.
type answer interface {
	http.ResponseWriter
	http.Flusher
	http.CloseNotifier //nolint:staticcheck // filters of k8s.io/apiserver take a writer for one that cannot be flushed where it is missing
}

// writer is the http.ResponseWriter of a watch that may join a session.
type writer struct {
	answer
	ctx context.Context
	// value is that of the header, and watch the number in it. session is nil if the aggregator only asks whether it may share.
	value   string
	session *sender
	watch   uint64

	begun bool
	// lane is nil if the body does not go to the session.
	lane *lane
	// held is a small write that waits for the next one, or nil.
	held *[]byte
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(code int) {
	if w.begun || code < http.StatusOK {
		w.answer.WriteHeader(code)
		return
	}
	w.begun = true
	_, measured := w.Header()["Content-Length"]
	if code == http.StatusOK && !measured {
		w.begin()
	}
	w.answer.WriteHeader(code)
	if w.lane != nil {
		w.answer.Flush() // without it an answer that ends at once would say that its length is 0
	}
}

func (w *writer) begin() {
	value := offer
	if w.session != nil {
		if w.lane = w.session.add(w.watch); w.lane != nil {
			value = w.value
		}
	}
	w.Header()[envelope.WatchesHeader] = []string{value}
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.lane == nil {
		return w.answer.Write(p)
	}
	if w.held == nil && len(p) >= small {
		if err := w.lane.write(w.ctx, p); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if w.held == nil {
		w.held = buffers.Get().(*[]byte)
	}
	*w.held = append(*w.held, p...)
	if len(*w.held) >= small {
		if err := w.send(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// send writes what is held.
func (w *writer) send() error {
	if w.held == nil {
		return nil
	}
	held := w.held
	w.held = nil
	err := w.lane.write(w.ctx, *held)
	if cap(*held) <= maxIdle {
		*held = (*held)[:0]
		buffers.Put(held)
	}
	return err
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError serves http.ResponseController.
func (w *writer) FlushError() error {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.lane != nil {
		return w.send()
	}
	return http.NewResponseController(w.answer).Flush()
}

// Unwrap serves http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.answer }

// finish is called when the handler returns.
func (w *writer) finish() {
	if w.lane == nil {
		return
	}
	_ = w.send() // it fails only if the watch has no receiver any more
	w.lane.end()
}
