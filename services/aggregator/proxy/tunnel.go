// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"
)

// tunnelLinger is how long a tunnel stays when one end is done and nothing passes from the other.
const tunnelLinger = 10 * time.Second

// serveUpgrade forwards a request that asks for another protocol. What becomes of its connection is a tunnel.
func serveUpgrade(proxy httputil.ReverseProxy, w http.ResponseWriter, req *http.Request) {
	t := &tunnel{ResponseWriter: w, next: proxy.Transport}
	proxy.Transport = t
	defer t.stop()
	proxy.ServeHTTP(t, req)
}

// tunnel ensures that all bytes of a backend arrive, also when the backend then goes while the client still sends: a
// program that has seen enough of its input ends, and its output and its exit code are on their way. With
// httputil.ReverseProxy alone the first write that fails would end both connections, and what they have not passed on would
// be lost. It is the ResponseWriter and the transport of the request, to hand out the two ends.
type tunnel struct {
	http.ResponseWriter
	next http.RoundTripper

	mu      sync.Mutex
	client  net.Conn
	backend io.ReadWriteCloser
	// lingering ends the tunnel. It is set when one end is done.
	lingering *time.Timer
	stopped   bool
}

// Unwrap is for http.ResponseController.
func (t *tunnel) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// RoundTrip sends the request, and keeps hold of the backend's end.
func (t *tunnel) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	// The answer that switches protocols has the backend's headers alone, as with kube-apiserver: nothing of it is for a cache, for example.
	clear(t.Header())
	if end, ok := resp.Body.(io.ReadWriteCloser); ok {
		t.backend = end
		resp.Body = &backendEnd{tunnel: t, ReadWriteCloser: end}
	}
	return resp, nil
}

// Hijack keeps hold of the client's end.
func (t *tunnel) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.client = conn
	return &clientEnd{tunnel: t, Conn: conn}, buffered, nil
}

// passed records that data went through.
func (t *tunnel) passed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lingering != nil && !t.stopped {
		t.lingering.Reset(tunnelLinger)
	}
}

// linger records that one end is done.
func (t *tunnel) linger() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lingering != nil || t.stopped {
		return
	}
	t.lingering = time.AfterFunc(tunnelLinger, func() {
		_ = t.client.Close() // both ends had their time
		_ = t.backend.Close()
	})
}

// stop is called when the tunnel ends, or does not come about: a backend may switch to a protocol that the client has not asked for.
func (t *tunnel) stop() {
	if t.backend != nil {
		_ = t.backend.Close() // it may be closed already
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.lingering != nil {
		t.lingering.Stop()
	}
}

// backendEnd is the connection with the backend. It ends without an error, and then takes what stays unread.
type backendEnd struct {
	io.ReadWriteCloser
	tunnel *tunnel

	mu sync.Mutex
	// closed is set when the tunnel itself has closed it.
	closed bool
	// gone is set when it takes no more.
	gone bool
}

func (e *backendEnd) Read(p []byte) (int, error) {
	n, err := e.ReadWriteCloser.Read(p)
	if err == nil {
		e.tunnel.passed()
		return n, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		err = io.EOF
	}
	return n, err
}

func (e *backendEnd) Write(p []byte) (int, error) {
	e.mu.Lock()
	gone := e.gone
	e.mu.Unlock()
	if gone {
		return len(p), nil
	}
	n, err := e.ReadWriteCloser.Write(p)
	if err == nil {
		e.tunnel.passed()
		return n, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return n, err
	}
	e.gone = true
	e.tunnel.linger()
	return len(p), nil
}

// CloseWrite signals the backend that the client has sent all.
func (e *backendEnd) CloseWrite() error {
	e.tunnel.linger()
	if half, ok := e.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // a backend that is gone may have left an answer
	}
	return nil
}

func (e *backendEnd) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	return e.ReadWriteCloser.Close()
}

// clientEnd is the connection with the client.
type clientEnd struct {
	net.Conn
	tunnel *tunnel
}

// CloseWrite signals the client that the backend has sent all. It then closes its end.
func (e *clientEnd) CloseWrite() error {
	e.tunnel.linger()
	if half, ok := e.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}
