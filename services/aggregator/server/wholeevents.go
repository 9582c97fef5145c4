// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"net/http"
	"strings"
	"sync"
	"time"
)

// lastEvent is how long the rest of an event may take when its watch is to end.
const lastEvent = time.Second

// wholeEvents is the ResponseWriter of a watch that the server may end. It ends between events.
type wholeEvents struct {
	http.ResponseWriter
	// end ends the watch.
	end func()

	mu sync.Mutex
	// within says that a part of an event was written, ending that the watch ends with it, and ended that it has.
	within, ending, ended bool
	frame                 frame
}

// Unwrap is for k8s.io/apiserver/pkg/endpoints/responsewriter.
func (w *wholeEvents) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write passes on events. What comes after the last one goes nowhere: the forwarder, which copies the answer, notices the end when it reads
// again.
func (w *wholeEvents) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return len(p), nil
	}
	n, err := w.ResponseWriter.Write(p)
	switch media := w.Header().Get("Content-Type"); {
	case strings.Contains(media, "json"):
		w.within = n > 0 && p[n-1] != '\n'
	case strings.Contains(media, "protobuf"):
		w.within = w.frame.pass(p[:n])
	}
	if w.ending && !w.within {
		w.ended = true
		w.end()
	}
	return n, err
}

// finish ends the watch with the event that is being written, if there is one.
func (w *wholeEvents) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	if w.within {
		time.AfterFunc(lastEvent, w.end)
		return
	}
	w.ended = true
	w.end()
}

// frame follows the length-delimited frames of a watch in Protobuf: four bytes of length, most significant first, and the event
// (k8s.io/apimachinery/pkg/util/framer).
type frame struct {
	length []byte
	left   uint32
}

// pass follows what was written, and reports whether that ended within a frame.
func (f *frame) pass(p []byte) bool {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(uint32(len(p)), f.left)
			f.left -= n
			p = p[n:]
			continue
		}
		n := min(len(p), 4-len(f.length))
		f.length = append(f.length, p[:n]...)
		p = p[n:]
		if len(f.length) == 4 {
			f.left = binary.BigEndian.Uint32(f.length)
			f.length = f.length[:0]
		}
	}
	return f.left > 0 || len(f.length) > 0
}
