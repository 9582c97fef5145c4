// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"net/http"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const (
	// patience is how long a client may take to receive what is written before it counts as memory.
	patience = time.Second
	// maxBlocked is how long it may take at most.
	maxBlocked = time.Minute
)

// Writer returns a writer for the answer of a request that lasts as long as its client likes. It breaks the answer off when the client does
// not receive what was written. How long the client has nothing to receive does not matter. End must be called before the handler returns.
func (s *Share) Writer(w http.ResponseWriter) *Writer {
	b := &Writer{ResponseWriter: w, share: s}
	b.timer = time.AfterFunc(time.Hour, b.blocked)
	b.timer.Stop()
	return b
}

// Writer is the ResponseWriter of a watch.
type Writer struct {
	http.ResponseWriter
	share *Share
	timer *time.Timer

	mu sync.Mutex
	// since is when the write began that goes on, or zero.
	since time.Time
	// counts is set while what the client does not receive counts as memory.
	counts bool
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.begin()
	defer w.End()
	return w.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (w *Writer) FlushError() error {
	w.begin()
	defer w.End()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *Writer) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Now()
	w.timer.Reset(patience)
}

// End is called when nothing is being written.
func (w *Writer) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
	w.timer.Stop()
	if w.counts {
		w.counts = false
		w.share.Add(-connections.Window)
	}
}

// blocked is called when a write takes long.
func (w *Writer) blocked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch took := time.Since(w.since); {
	case w.since.IsZero(), took < patience:
		return // this was another write
	case took >= maxBlocked:
		refusals.WithLabelValues(endedBlocked).Inc()
	case w.share.Take(connections.Window):
		w.counts = true
		w.timer.Reset(maxBlocked - took)
		return
	default:
		refusals.WithLabelValues(endedWatch).Inc()
	}
	// A deadline in the past ends the write. It has no error where there is a client.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
}
