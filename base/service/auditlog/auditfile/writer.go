// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package auditfile

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"

	"k8s.io/klog/v2"
)

// maxSocketPath is the longest path of a Unix socket in bytes (unix(7); sun_path ends with a zero byte).
const maxSocketPath = 107

// Writer writes the log of several services.
type Writer struct {
	file     io.WriteCloser
	listener net.Listener
	serving  sync.WaitGroup

	// mu keeps lines whole.
	mu          sync.Mutex
	connections map[net.Conn]bool
}

// Options say where the log is, and how it is rotated. They are kube-apiserver's flags --audit-log-path, -maxage, -maxbackup, -maxsize and
// -compress.
type Options struct {
	// Path is "-" for stdout.
	Path string
	// MaxAge is in days, and MaxSize in megabytes.
	MaxAge, MaxBackups, MaxSize int
	Compress                    bool
}

// Start opens the log that the options name, and listens at a new socket. A log named "-" goes to stdout.
func Start(socket string, o Options, stdout io.Writer) (*Writer, error) {
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("listen for audit events: the path %s is longer than the %d bytes that a Unix socket may have: set TMPDIR to a "+
			"shorter directory",
			socket, maxSocketPath)
	}
	file, err := open(o, stdout)
	if err != nil {
		return nil, fmt.Errorf("--audit-log-path: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for audit events: %w", err), file.Close())
	}
	w := &Writer{file: file, listener: listener, connections: map[net.Conn]bool{}}
	w.serving.Go(w.serve)
	return w, nil
}

// open opens the log as kube-apiserver does (k8s.io/apiserver/pkg/server/options), with its modes.
func open(o Options, stdout io.Writer) (io.WriteCloser, error) {
	if o.Path == "-" {
		return staysOpen{stdout}, nil
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(o.Path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil || o.MaxSize == 0 {
		return file, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	return &lumberjack.Logger{
		Filename: o.Path, MaxAge: o.MaxAge, MaxBackups: o.MaxBackups, MaxSize: o.MaxSize, Compress: o.Compress,
	}, nil
}

type staysOpen struct{ io.Writer }

func (staysOpen) Close() error { return nil }

func (w *Writer) serve() {
	for {
		connection, err := w.listener.Accept()
		if err != nil {
			return // closed
		}
		w.mu.Lock()
		w.connections[connection] = true
		w.mu.Unlock()
		w.serving.Go(func() {
			if err := w.take(connection); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				klog.ErrorS(err, "A service that writes the audit log is lost")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.connections, connection)
			_ = connection.Close()
		})
	}
}

// take writes what arrives on a connection, until an error or the end. It drops an incomplete frame, which a killed service leaves.
func (w *Writer) take(connection net.Conn) error {
	for {
		lines, err := Receive(connection)
		if err != nil {
			return err
		}
		failure := ""
		if err := w.write(lines); err != nil {
			failure = err.Error()
		}
		if err := Send(connection, []byte(failure)); err != nil {
			return err
		}
	}
}

func (w *Writer) write(lines []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.file.Write(lines)
	return err
}

// Close ends the log. Call it after the services have stopped, so that nothing that they wrote is lost.
func (w *Writer) Close() error {
	err := w.listener.Close()
	w.mu.Lock()
	for connection := range w.connections {
		err = errors.Join(err, connection.Close())
	}
	w.mu.Unlock()
	w.serving.Wait()
	return errors.Join(err, w.file.Close())
}
