// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connectionstest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Fault is what a Server does to a request.
type Fault string

// Faults of both protocols. A request counts as processed once all of its headers have arrived, unless the server says that it did not process it.
const (
	// None: the server answers with the method as the body.
	None Fault = "none"
	// BeforeHandshake: the server closes the connection before TLS.
	BeforeHandshake Fault = "connection closed before TLS"
	// Hangs: the server accepts the connection and does nothing else.
	Hangs Fault = "connection hangs before TLS"
	// BeforeHeaders: the server closes the connection before it reads any of the request.
	BeforeHeaders Fault = "connection closed before headers are read"
	// AfterHeaders: the server closes the connection after it has read the headers.
	AfterHeaders Fault = "connection closed after headers"
	// AmidBody: the server closes the connection after it has read a part of the body.
	AmidBody Fault = "connection closed amid the body"
	// AfterBody: the server closes the connection after it has read the whole request.
	AfterBody Fault = "connection closed after the body"
	// AmidAnswer: the server closes the connection after the headers and a part of the body of the answer.
	AmidAnswer Fault = "connection closed amid the answer"
)

// Faults of HTTP/1.1.
const (
	// AmidAnswerHeaders: the server closes the connection within the headers of the answer.
	AmidAnswerHeaders Fault = "connection closed amid headers of the answer"
)

// Faults of HTTP/2.
const (
	// GoAwayBelow: a GOAWAY says that the request was not processed.
	GoAwayBelow Fault = "GOAWAY below the stream"
	// GoAwayBelowInError: the same with an error code.
	GoAwayBelowInError Fault = "GOAWAY below the stream, with an error"
	// GoAwayAboveAndClose: a GOAWAY says that the request may have been processed. Then the server closes the connection.
	GoAwayAboveAndClose Fault = "GOAWAY above the stream, connection closed"
	// GoAwayAboveAndAnswer: the same, but the server answers first.
	GoAwayAboveAndAnswer Fault = "GOAWAY above the stream, answered"
	// ResetRefused: the server resets the stream with REFUSED_STREAM, which says that it did not process the request.
	ResetRefused Fault = "RST_STREAM REFUSED_STREAM"
	// ResetProtocol: the server resets the stream with PROTOCOL_ERROR. x/net/http2's own Transport retries such requests.
	ResetProtocol Fault = "RST_STREAM PROTOCOL_ERROR"
	// ResetInternal: the server resets the stream with INTERNAL_ERROR, like a handler that panics.
	ResetInternal Fault = "RST_STREAM INTERNAL_ERROR"
	// Frozen: the server answers nothing any more, not even a PING.
	Frozen Fault = "frozen"
)

// Stopped is a server whose process is stopped: connections succeed, but nothing answers on any of them.
const Stopped Fault = "stopped"

// SaysUnprocessed reports whether the client can know that the request was not processed.
func (f Fault) SaysUnprocessed() bool {
	switch f {
	case BeforeHandshake, GoAwayBelow, GoAwayBelowInError, ResetRefused:
		return true
	}
	return false
}

// Answers reports whether the client gets at least the headers of an answer.
func (f Fault) Answers() bool { return f == None || f == GoAwayAboveAndAnswer || f == AmidAnswer }

// CommonFaults are the faults of both protocols except None. HTTP1Faults and HTTP2Faults are all of one protocol.
var (
	CommonFaults = []Fault{BeforeHandshake, BeforeHeaders, AfterHeaders, AmidBody, AfterBody, AmidAnswer}
	HTTP1Faults  = append([]Fault{AmidAnswerHeaders}, CommonFaults...)
	HTTP2Faults  = append([]Fault{
		GoAwayBelow, GoAwayBelowInError, GoAwayAboveAndClose, GoAwayAboveAndAnswer, ResetRefused, ResetProtocol, ResetInternal,
	}, CommonFaults...)
)

// Server does the same fault to each request.
type Server struct {
	// Address is host:port.
	Address string

	processed atomic.Int64
	listener  net.Listener
	mu        sync.Mutex
	fault     Fault
	conns     map[net.Conn]struct{}
	serving   sync.WaitGroup
}

// Serve starts a server with a fault. It stops when the test ends.
func Serve(t testing.TB, config *tls.Config, fault Fault) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &Server{Address: listener.Addr().String(), listener: listener, fault: fault, conns: map[net.Conn]struct{}{}}
	s.serving.Go(func() { s.accept(config) })
	t.Cleanup(func() {
		_ = listener.Close()
		s.CloseConnections()
		s.serving.Wait()
	})
	return s
}

// Processed returns how many requests a real server might have processed.
func (s *Server) Processed() int { return int(s.processed.Load()) }

// SetFault changes the fault for later requests.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *Server) currentFault() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// CloseConnections closes all connections.
func (s *Server) CloseConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

// Connections returns how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) accept(config *tls.Config) {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[raw] = struct{}{}
		s.mu.Unlock()
		s.serving.Go(func() {
			defer func() {
				_ = raw.Close()
				s.mu.Lock()
				delete(s.conns, raw)
				s.mu.Unlock()
			}()
			switch s.currentFault() {
			case BeforeHandshake:
				return
			case Hangs, Stopped:
				_, _ = io.Copy(io.Discard, raw) // until it is closed
				return
			}
			conn := tls.Server(raw, config)
			if conn.Handshake() != nil {
				return
			}
			if conn.ConnectionState().NegotiatedProtocol == "h2" {
				s.serveHTTP2(conn)
				return
			}
			s.serveHTTP1(conn)
		})
	}
}

func (s *Server) serveHTTP1(conn net.Conn) {
	in := bufio.NewReaderSize(conn, 512)
	for {
		if _, err := in.Peek(1); err != nil || s.currentFault() == BeforeHeaders {
			return
		}
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		fault := s.currentFault()
		s.processed.Add(1)
		switch fault {
		case Stopped:
			_, _ = io.Copy(io.Discard, conn) // until it is closed
			return
		case AfterHeaders:
			return
		case AmidBody:
			_, _ = io.CopyN(io.Discard, req.Body, max(req.ContentLength, 2)/2)
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		switch fault {
		case AfterBody:
			return
		case AmidAnswerHeaders:
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Le")
			return
		case AmidAnswer:
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n%s", body(req.Method))
			return
		}
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(req.Method), body(req.Method))
	}
}

// body returns the body of an answer.
func body(method string) string {
	if method == http.MethodHead {
		return ""
	}
	return method
}

// serveHTTP2 speaks as much of HTTP/2 as a client needs.
func (s *Server) serveHTTP2(conn net.Conn) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	c := &http2Conn{server: s, framer: http2.NewFramer(conn, conn)}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if c.framer.WriteSettings() != nil {
		return
	}
	for c.next() {
	}
}

// http2Conn is an HTTP/2 connection.
type http2Conn struct {
	server *Server
	framer *http2.Framer
	// method is the method of the request, and got the number of bytes read from its body.
	method string
	got    int
	frozen bool
}

// next handles a frame. It returns false if the connection ends.
func (c *http2Conn) next() bool {
	frame, err := c.framer.ReadFrame()
	if err != nil {
		return false
	}
	if c.frozen || c.server.currentFault() == Stopped {
		return true
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		return f.IsAck() || c.framer.WriteSettingsAck() == nil
	case *http2.PingFrame:
		return f.IsAck() || c.framer.WritePing(true, f.Data) == nil
	case *http2.MetaHeadersFrame:
		c.method, c.got = f.PseudoValue("method"), 0
		return c.headers(f.StreamID) && (!f.StreamEnded() || c.end(f.StreamID))
	case *http2.DataFrame:
		return c.data(f)
	}
	return true
}

func (c *http2Conn) headers(stream uint32) bool {
	fault := c.server.currentFault()
	switch fault {
	case BeforeHeaders:
		return false // it looks so to the client
	case GoAwayBelow:
		_ = c.framer.WriteGoAway(stream-1, http2.ErrCodeNo, nil)
		return true
	case GoAwayBelowInError:
		_ = c.framer.WriteGoAway(stream-1, http2.ErrCodeEnhanceYourCalm, nil)
		return true
	case ResetRefused:
		return c.framer.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
	}
	c.server.processed.Add(1)
	switch fault {
	case AfterHeaders:
		return false
	case ResetProtocol:
		return c.framer.WriteRSTStream(stream, http2.ErrCodeProtocol) == nil
	case ResetInternal:
		return c.framer.WriteRSTStream(stream, http2.ErrCodeInternal) == nil
	case Frozen:
		c.frozen = true
	}
	return true
}

func (c *http2Conn) data(f *http2.DataFrame) bool {
	fault := c.server.currentFault()
	c.got += len(f.Data())
	if fault == AmidBody && c.got > 0 {
		return false
	}
	if n := uint32(len(f.Data())); n > 0 {
		if c.framer.WriteWindowUpdate(0, n) != nil || c.framer.WriteWindowUpdate(f.StreamID, n) != nil {
			return false
		}
	}
	return !f.StreamEnded() || c.end(f.StreamID)
}

// end handles the end of a request.
func (c *http2Conn) end(stream uint32) bool {
	switch c.server.currentFault() {
	case GoAwayBelow, GoAwayBelowInError, ResetRefused, ResetProtocol, ResetInternal, Frozen:
		return true
	case AmidBody, AfterBody:
		return false
	case GoAwayAboveAndClose:
		_ = c.framer.WriteGoAway(stream, http2.ErrCodeNo, nil)
		return false
	case GoAwayAboveAndAnswer:
		return c.framer.WriteGoAway(stream, http2.ErrCodeNo, nil) == nil && c.answer(stream, true) == nil
	case AmidAnswer:
		_ = c.answer(stream, false)
		return false
	}
	return c.answer(stream, true) == nil
}

func (c *http2Conn) answer(stream uint32, complete bool) error {
	var block headerBlock
	headers := http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block.encode(":status", "200"), EndHeaders: true, EndStream: c.method == http.MethodHead,
	}
	if err := c.framer.WriteHeaders(headers); err != nil || headers.EndStream {
		return err
	}
	return c.framer.WriteData(stream, complete, []byte(body(c.method)))
}

// headerBlock encodes headers.
type headerBlock struct{ encoded []byte }

func (b *headerBlock) Write(p []byte) (int, error) {
	b.encoded = append(b.encoded, p...)
	return len(p), nil
}

func (b *headerBlock) encode(name, value string) []byte {
	_ = hpack.NewEncoder(b).WriteField(hpack.HeaderField{Name: name, Value: value}) // writing to memory cannot fail
	return b.encoded
}
