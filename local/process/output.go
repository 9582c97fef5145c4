// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

const (
	// maxLogSize is the size at which a log is renamed before the next start of its writer.
	maxLogSize = 10 << 20
	// tailSize is how many bytes of the end of an output are searched for last words.
	tailSize = 16 << 10
)

// Output takes what a child writes. A child runs several times, one run after the other.
type Output interface {
	// Open returns the writers for the next run of the child.
	Open() (stdout, stderr io.Writer, err error)
	// Tail returns the last lines of the present run. The last one may be incomplete.
	Tail() []string
	// Close is called after each run.
	Close() error
}

// LogFile is an Output that appends to a file. If the file is larger than 10 MiB when a run starts, it is renamed to NAME.1, which replaces
// an older one.
type LogFile struct {
	path  string
	file  *os.File
	begin int64
}

// NewLogFile returns an Output to the file at path.
func NewLogFile(path string) *LogFile { return &LogFile{path: path} }

// Open implements Output.
func (l *LogFile) Open() (stdout, stderr io.Writer, err error) {
	if info, err := os.Lstat(l.path); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return nil, nil, fmt.Errorf("cannot put the old log aside: %w", err)
		}
	}
	// A user who could put a link here must not have the log written to a file of another one.
	l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write a log: %w", err)
	}
	if info, err := l.file.Stat(); err == nil {
		l.begin = info.Size()
	}
	return l.file, l.file, nil
}

// Tail implements Output.
func (l *LogFile) Tail() []string {
	info, err := l.file.Stat()
	if err != nil {
		return nil
	}
	from := max(l.begin, info.Size()-tailSize)
	data := make([]byte, info.Size()-from)
	n, err := l.file.ReadAt(data, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return strings.Split(string(data[:n]), "\n")
}

// Close implements Output.
func (l *LogFile) Close() error { return l.file.Close() }

// Stream passes the output of several children on to one standard output and one standard error. It writes whole lines, so that the lines
// of different children do not mix.
type Stream struct {
	mu             sync.Mutex
	stdout, stderr io.Writer
}

// NewStream returns a Stream to stdout and stderr.
func NewStream(stdout, stderr io.Writer) *Stream { return &Stream{stdout: stdout, stderr: stderr} }

// Output returns an Output for one child.
func (s *Stream) Output() Output { return &streamOutput{stream: s} }

type streamOutput struct {
	stream         *Stream
	stdout, stderr *lineWriter
}

func (o *streamOutput) Open() (stdout, stderr io.Writer, err error) {
	o.stdout = &lineWriter{mu: &o.stream.mu, to: o.stream.stdout}
	o.stderr = &lineWriter{mu: &o.stream.mu, to: o.stream.stderr}
	return o.stdout, o.stderr, nil
}

func (o *streamOutput) Tail() []string {
	return strings.Split(string(o.stderr.tail)+string(o.stderr.rest), "\n")
}

func (o *streamOutput) Close() error {
	o.stdout.flush()
	o.stderr.flush()
	return nil
}

// lineWriter writes whole lines under a lock and remembers the last ones. It has one writer.
type lineWriter struct {
	mu   *sync.Mutex
	to   io.Writer
	rest []byte
	tail []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	w.tail = append(w.tail, w.rest[:end]...)
	w.tail = append([]byte(nil), w.tail[max(0, len(w.tail)-tailSize):]...)
	w.pass(w.rest[:end])
	w.rest = append([]byte(nil), w.rest[end:]...)
	return len(p), nil
}

func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.pass(append(w.rest, '\n'))
		w.rest = nil
	}
}

// pass writes on. It ignores errors: a reader that went away must not stop a child.
func (w *lineWriter) pass(lines []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.to.Write(lines)
}
