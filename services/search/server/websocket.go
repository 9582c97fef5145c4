// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/websocket"
	"golang.org/x/time/rate"

	"k8s.io/streaming/pkg/httpstream/wsstream"
)

const (
	// maxReceived bounds what a client may send in a frame of its WebSocket: it has nothing to say. closeTimeout is for the frame that ends
	// it.
	maxReceived  = 1 << 10
	closeTimeout = 5 * time.Second
	// receivedAtOnce and receivedPerSecond bound the bytes of all its frames, which has room for a ping a second. The library answers each
	// ping, and reads each frame to its end, so a client could keep a processor busy.
	receivedAtOnce    = 4 << 10
	receivedPerSecond = 128
)

// stream runs what writes all events. A client such as a browser may ask for a WebSocket, of which it sees no error: so write begins with
// an answer that was decided. The context of write also ends when the client leaves, or sends too much.
func (e *eventWriter) stream(ctx context.Context, write func(context.Context)) {
	if !wsstream.IsWebSocketRequest(e.req) {
		write(ctx)
		return
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	websocket.Handler(func(socket *websocket.Conn) {
		socket.MaxPayloadBytes = maxReceived
		left := make(chan struct{})
		go func() {
			defer close(left)
			defer leave()
			wsstream.IgnoreReceives(socket, 0) // until the client leaves or sends too much, or the socket is closed here
		}()
		e.socket = socket
		write(ctx)
		socket.SetDeadline(time.Now().Add(closeTimeout)) //nolint:errcheck // it is closed then
		socket.Close()                                   //nolint:errcheck // the watch is over
		<-left
	}).ServeHTTP(quiet{e.response}, e.req)
}

// quiet is a response whose connection reads little once it is hijacked.
type quiet struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (q quiet) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(q.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	begun, err := both.Peek(both.Reader.Buffered())
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	from := &metered{conn, rate.NewLimiter(receivedPerSecond, receivedAtOnce)}
	both.Reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(begun)), from), maxReceived)
	return conn, both, nil
}

// metered is what a client sends. It ends when that is too much.
type metered struct {
	io.Reader
	limit *rate.Limiter
}

var errTalk = errors.New("the client of a watch sends too much")

// Read implements io.Reader.
func (m *metered) Read(into []byte) (int, error) {
	n, err := m.Reader.Read(into)
	if !m.limit.AllowN(time.Now(), n) {
		return 0, errTalk
	}
	return n, err
}
