// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// socket is a connection without its TLS. It records how it ended. Break can close it without a notice to the other end, which may not
// respond.
type socket struct {
	net.Conn
	// material is the TLS configuration of its handshake.
	material *material
	// broken is true if the other end or the network closed it.
	broken atomic.Bool
	closed atomic.Bool
	once   sync.Once
	// made is when the connection was made, reads the number of its reads, and received that of all connections of the pool.
	made     time.Time
	reads    atomic.Uint64
	received *atomic.Uint64
	// onClose is called once.
	onClose func(*socket)
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.reads.Add(1)
		s.received.Add(1)
	}
	if err != nil {
		s.broken.Store(true)
	}
	return n, err
}

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if err != nil {
		s.broken.Store(true)
	}
	return n, err
}

func (s *socket) Close() error {
	s.closed.Store(true)
	s.once.Do(func() { s.onClose(s) })
	return s.Conn.Close()
}

// breakOff closes the connection without a notice to the other end. Its requests fail.
func (s *socket) breakOff() {
	s.broken.Store(true)
	_ = s.Close() // no caller needs the error
}

// gone reports whether nothing can be sent any more.
func (s *socket) gone() bool { return s.closed.Load() || s.broken.Load() }

// counted is a TLS connection that counts the bytes of its user, without those of TLS itself.
type counted struct {
	*tls.Conn
	sent atomic.Int64
	// awaiting is true until the header of an answer is complete, and left is how much may come until then.
	awaiting atomic.Bool
	left     atomic.Int64
}

// maxInterim bounds the header of an answer together with interim answers (1xx) before it. By itself, net/http bounds each of them.
const maxInterim = 2 * MaxHeader

var errInterim = errors.New("the replica sends interim answers without end")

// awaitHeader bounds what arrives until awaiting is false.
func (c *counted) awaitHeader() {
	c.left.Store(maxInterim)
	c.awaiting.Store(true)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.awaiting.Load() && c.left.Add(-int64(n)) < 0 {
		return 0, errInterim
	}
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}
