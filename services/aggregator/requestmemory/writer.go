// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requestmemory

import (
	"net/http"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const (
	// blockedAfter is how long a write may take before the written bytes count as memory of the user.
	blockedAfter = time.Second
	// maxBlocked is how long a write may take before the answer ends.
	maxBlocked = time.Minute
)

// Writer returns a writer for an answer that lasts as long as the client wants, such as a watch. It ends the answer if the client does not
// receive what the aggregator writes. Time without writes does not count. The handler must call End before it returns.
func (s *Reservation) Writer(w http.ResponseWriter) *Writer {
	b := &Writer{ResponseWriter: w, reservation: s}
	b.timer = time.AfterFunc(time.Hour, b.blocked)
	b.timer.Stop()
	return b
}

// Writer is the http.ResponseWriter of a watch.
type Writer struct {
	http.ResponseWriter
	reservation *Reservation
	timer       *time.Timer

	mu sync.Mutex
	// since is when the current write began. It is zero between writes.
	since time.Time
	// counts is true while the written bytes count as memory of the user.
	counts bool
	// armed is true while the timer runs. It runs on after a write: to stop it each time took 0.4 µs of an event.
	armed bool
}

// Unwrap serves http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.begin()
	defer w.End()
	return w.ResponseWriter.Write(p)
}

// FlushError serves http.ResponseController.
func (w *Writer) FlushError() error {
	w.begin()
	defer w.End()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *Writer) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Now()
	if !w.armed {
		w.armed = true
		w.timer.Reset(blockedAfter)
	}
}

// End says that no write is in progress.
func (w *Writer) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
	if w.counts {
		w.timer.Stop() // it is set to a minute
		w.counts, w.armed = false, false
		w.reservation.Add(-connections.Window)
	}
}

// blocked runs some time after a write began.
func (w *Writer) blocked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch took := time.Since(w.since); {
	case w.since.IsZero():
		w.armed = false
		return
	case took < blockedAfter: // a later write
		w.timer.Reset(blockedAfter - took)
		return
	case took >= maxBlocked:
		refusals.WithLabelValues(endedBlocked).Inc()
	case w.reservation.Take(connections.Window):
		w.counts = true
		w.timer.Reset(maxBlocked - took)
		return
	default:
		refusals.WithLabelValues(endedWatch).Inc()
	}
	// A deadline in the past ends the write. Setting it cannot fail while the connection is open.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
}
