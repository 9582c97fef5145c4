// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"log"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// libraryLinesAtOnce is how many lines libraries may write at once, and libraryLinesPerSecond in the long run.
const libraryLinesAtOnce, libraryLinesPerSecond = 100, 5

// libraryLog bounds what libraries write with the standard logger. The other end of a connection decides how much that is: HTTP/2 of Go
// writes a line for each frame of an unknown type.
type libraryLog struct {
	to  io.Writer
	now func() time.Time

	mu sync.Mutex
	// left are the lines that may still come, as of the time at.
	left float64
	at   time.Time
	// others are lines that were left out.
	others int
}

// limitLibraryLog bounds the standard logger from now on. It may be called again.
func limitLibraryLog() {
	if _, limited := log.Writer().(*libraryLog); !limited {
		log.SetOutput(&libraryLog{to: log.Writer(), now: time.Now, left: libraryLinesAtOnce})
	}
}

// Write implements io.Writer. It takes the lines that it leaves out, too: a library has no use for an error.
func (l *libraryLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	now := l.now()
	if !l.at.IsZero() {
		l.left = min(l.left+now.Sub(l.at).Seconds()*libraryLinesPerSecond, libraryLinesAtOnce)
	}
	l.at = now
	if l.left < 1 {
		l.others++
		l.mu.Unlock()
		return len(line), nil
	}
	l.left--
	others := l.others
	l.others = 0
	l.mu.Unlock()
	if others > 0 {
		klog.InfoS("Lines of libraries were left out", "lines", others)
	}
	return l.to.Write(line)
}
