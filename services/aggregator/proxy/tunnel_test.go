// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// backendConn is a backend that switches protocols, and the connection with it.
type backendConn struct {
	// Reader has what it sends, and Writer takes what the client sends.
	io.Reader
	io.Writer
	// sentAll is set when the client has sent all.
	sentAll bool
	// protocol is another than was asked for, or empty.
	protocol string
	closed   bool
}

func (b *backendConn) Close() error      { b.closed = true; return nil }
func (b *backendConn) CloseWrite() error { b.sentAll = true; return nil }

// RoundTrip switches protocols.
func (b *backendConn) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Request: req, Body: b,
		Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {cmp.Or(b.protocol, "test")}},
	}, nil
}

// clientConn is the server's end of the connection with a client, of which each direction can be closed alone.
type clientConn struct {
	net.Conn
	in  *io.PipeReader
	out *io.PipeWriter
}

func (c clientConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c clientConn) Write(p []byte) (int, error) { return c.out.Write(p) }
func (c clientConn) CloseWrite() error           { return c.out.Close() }
func (c clientConn) Close() error                { return errors.Join(c.in.Close(), c.out.Close()) }

type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// client is the other end of a tunnel.
type client struct {
	sending   *io.PipeWriter
	receiving *bufio.Reader
	// ended is closed when the tunnel is no more.
	ended chan struct{}
}

// openTunnel returns a client whose connection with the backend is a tunnel now.
func openTunnel(t *testing.T, b *backendConn) client {
	t.Helper()
	in, sending := io.Pipe()
	receiving, out := io.Pipe()
	c := client{sending: sending, receiving: bufio.NewReader(receiving), ended: make(chan struct{})}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "test")
	go func() {
		defer close(c.ended)
		serveUpgrade(httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: b},
			hijackable{httptest.NewRecorder(), clientConn{in: in, out: out}}, req)
	}()
	resp, err := http.ReadResponse(c.receiving, req)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v: %v", resp, err)
	}
	return c
}

func TestAConnectionWithAnotherProtocolIsClosed(t *testing.T) {
	b := &backendConn{protocol: "another"}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "test")
	w := httptest.NewRecorder()
	serveUpgrade(httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: b}, w, req)
	assert.Equal(t, http.StatusBadGateway, w.Code)
	assert.True(t, b.closed, "the connection with the backend is closed")
}

// deaf is a connection of which the other end is closed.
var deaf = writerFunc(func([]byte) (int, error) { return 0, errors.New("broken pipe") })

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestABackendsAnswerArrivesWhileTheClientStillSends(t *testing.T) {
	for name, end := range map[string]error{"ended": io.EOF, "broken": errors.New("connection reset by peer")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				words := strings.Repeat("the answer\n", 10_000)
				c := openTunnel(t, &backendConn{Reader: io.MultiReader(strings.NewReader(words), iotest.ErrReader(end)), Writer: deaf})
				for range 3 {
					if _, err := io.WriteString(c.sending, "more"); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if got, err := io.ReadAll(c.receiving); err != nil || string(got) != words {
					t.Errorf("got %d bytes of %d: %v", len(got), len(words), err)
				}
				_ = c.sending.Close()
				<-c.ended
			})
		})
	}
}

func TestAClientThatDoesNotCloseIsCutOff(t *testing.T) {
	for name, talk := range map[string]func(io.Writer){
		"silent": func(io.Writer) {},
		"talking": func(w io.Writer) {
			for err := error(nil); err == nil; time.Sleep(time.Second) {
				_, err = io.WriteString(w, "x")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := openTunnel(t, &backendConn{Reader: strings.NewReader(""), Writer: deaf})
				var talking sync.WaitGroup
				talking.Go(func() { talk(c.sending) })
				defer talking.Wait()
				start := time.Now()
				<-c.ended
				assert.Equal(t, tunnelLinger, time.Since(start))
			})
		})
	}
}

func TestABackendMayAnswerWhenTheClientHasSentAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, answering := io.Pipe()
		var sent bytes.Buffer
		backend := &backendConn{Reader: answer, Writer: &sent}
		c := openTunnel(t, backend)
		if _, err := io.WriteString(c.sending, "question"); err != nil {
			t.Fatal(err)
		}
		_ = c.sending.Close()
		go func() {
			for range 5 { // as long as it goes on, it may take its time
				time.Sleep(tunnelLinger - time.Second)
				_, _ = io.WriteString(answering, "part ")
			}
			_ = answering.Close()
		}()
		if got, err := io.ReadAll(c.receiving); err != nil || string(got) != "part part part part part " {
			t.Errorf("got %q: %v", got, err)
		}
		<-c.ended
		if sent.String() != "question" || !backend.sentAll {
			t.Errorf("the backend received %q, all of it: %t", sent.String(), backend.sentAll)
		}
	})
}
