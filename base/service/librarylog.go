// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"log"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"k8s.io/klog/v2"
)

// libraryLinesAtOnce is how many lines libraries may write at once, and libraryLinesPerSecond in the long run.
const libraryLinesAtOnce, libraryLinesPerSecond = 100, 5

// libraryLog bounds what libraries write with the standard logger. The other end of a connection decides how much that is: HTTP/2 of Go
// writes a line for each frame of an unknown type.
type libraryLog struct {
	to  io.Writer
	now func() time.Time

	lines *rate.Limiter
	// others are lines that were left out.
	others atomic.Int64
}

func newLibraryLog(to io.Writer, now func() time.Time) *libraryLog {
	return &libraryLog{to: to, now: now, lines: rate.NewLimiter(libraryLinesPerSecond, libraryLinesAtOnce)}
}

// limitLibraryLog bounds the standard logger from now on. It may be called again.
func limitLibraryLog() {
	if _, limited := log.Writer().(*libraryLog); !limited {
		log.SetOutput(newLibraryLog(log.Writer(), time.Now))
	}
}

// Write implements io.Writer. It takes the lines that it leaves out, too: a library has no use for an error.
func (l *libraryLog) Write(line []byte) (int, error) {
	if !l.lines.AllowN(l.now(), 1) {
		l.others.Add(1)
		return len(line), nil
	}
	if others := l.others.Swap(0); others > 0 {
		klog.InfoS("Lines of libraries were left out", "lines", others)
	}
	return l.to.Write(line)
}
