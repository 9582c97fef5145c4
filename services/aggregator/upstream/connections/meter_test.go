// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// flood answers the first request of a connection, which is stream 1, and begins to answer the second one with begin. Then it sends a
// batch of frames again and again, until that fails or it has sent most bytes. It returns how many these were.
func flood(t *testing.T, conn net.Conn, begin, batch []byte, most int) (sent int) {
	framer := http2.NewFramer(conn, conn)
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return 0
	}
	assert.NoError(t, framer.WriteSettings())
	for requests := 0; requests < 2; {
		frame, err := framer.ReadFrame()
		if err != nil {
			return 0
		}
		if frame.Header().Type != http2.FrameHeaders {
			continue
		}
		if requests++; requests == 1 {
			ends := headers(1, "200")
			ends.EndStream = true
			assert.NoError(t, framer.WriteHeaders(ends))
		}
	}
	go io.Copy(io.Discard, conn) //nolint:errcheck // answers to the flood
	_, err := conn.Write(begin)
	assert.NoError(t, err)
	for sent < most {
		n, err := conn.Write(batch)
		sent += n
		if err != nil {
			break
		}
	}
	return sent
}

// headers are those of an answer with nothing but a status.
func headers(stream uint32, status string) http2.HeadersFrameParam {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: status}) // to memory
	return http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}
}

func TestFramesThatBelongToNoAnswerEndTheConnection(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	for name, write := range map[string]func(*http2.Framer) error{
		"unknown":                  func(f *http2.Framer) error { return f.WriteRawFrame(0x40, 0, 0, nil) },
		"priority":                 func(f *http2.Framer) error { return f.WritePriority(3, http2.PriorityParam{}) },
		"window update":            func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 1) },
		"ping":                     func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) },
		"settings":                 func(f *http2.Framer) error { return f.WriteSettings() },
		"reset":                    func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeCancel) },
		"headers of an old answer": func(f *http2.Framer) error { return f.WriteHeaders(headers(1, "200")) },
		"interim answers":          func(f *http2.Framer) error { return f.WriteHeaders(headers(3, "103")) },
		"old content":              func(f *http2.Framer) error { return f.WriteData(1, false, make([]byte, 100)) },
		"content without any":      func(f *http2.Framer) error { return f.WriteData(3, false, nil) },
		"content of padding":       func(f *http2.Framer) error { return f.WriteDataPadded(3, false, nil, make([]byte, 100)) },
	} {
		t.Run(name, func(t *testing.T) {
			var begin, batch bytes.Buffer
			if strings.HasPrefix(name, "content") { // it follows a header
				require.NoError(t, http2.NewFramer(&begin, nil).WriteHeaders(headers(3, "200")))
			}
			framer := http2.NewFramer(&batch, nil)
			for batch.Len() < 256<<10 {
				require.NoError(t, write(framer))
			}
			config := pki.ServerConfig(t, serverName)
			config.NextProtos = []string{"h2"}
			listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
			require.NoError(t, err)
			defer listener.Close()
			const most = 64 << 20
			sent := make(chan int, 1)
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				sent <- flood(t, conn, begin.Bytes(), batch.Bytes(), most)
			}()
			pool, _ := newPool(t, pki, listener.Addr().String())
			_, err = do(t, pool, newRequest(t, http.MethodPost, ""), connections.Multiplexed)
			require.NoError(t, err)
			_, err = do(t, pool, newRequest(t, http.MethodPost, ""), connections.Multiplexed)
			assert.Error(t, err)
			assert.Less(t, <-sent, most, "bytes")
		})
	}
}

// TestAnAnswerMayHaveManyFrames has answers in the smallest frames, also to clients that do not read yet, and requests of many frames.
func TestAnAnswerMayHaveManyFrames(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	const frames, length = 30_000, 64 << 20
	written := make(chan struct{}, 150)
	pool, open := newPool(t, pki, serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		switch req.Method {
		case http.MethodGet: // short lines, like those of a log
			for range frames {
				_, _ = io.WriteString(w, "1\n")
				_ = http.NewResponseController(w).Flush()
			}
		case http.MethodPost:
			n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{req.Body}, make([]byte, 512))
			assert.EqualValues(t, length, n)
		default:
			_, _ = w.Write(make([]byte, connections.Window))
			written <- struct{}{}
			<-req.Context().Done()
		}
	}))
	answer, err := do(t, pool, newRequest(t, http.MethodGet, ""), connections.Multiplexed)
	require.NoError(t, err)
	assert.Len(t, answer, 2*frames)
	_, err = do(t, pool, newRequest(t, http.MethodPost, strings.Repeat("x", length)), connections.Multiplexed)
	require.NoError(t, err)
	for range 3 {
		var unread []*http.Response
		for range cap(written) {
			resp, err := pool.RoundTrip(newRequest(t, http.MethodPut, ""), connections.Multiplexed)
			require.NoError(t, err)
			unread = append(unread, resp)
		}
		for range unread {
			<-written
		}
		for _, resp := range unread {
			require.NoError(t, resp.Body.Close())
		}
	}
	_, err = do(t, pool, newRequest(t, http.MethodGet, ""), connections.Multiplexed)
	require.NoError(t, err)
	assert.EqualValues(t, 1, open.http2.Load(), "connections")
}
