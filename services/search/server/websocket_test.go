// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/websocket"
)

// dial opens a watch as a browser does. next returns the text of its next message, and nothing at its end.
func dial(t *testing.T, location string) (socket *websocket.Conn, next func() string) {
	t.Helper()
	config, err := websocket.NewConfig(strings.Replace(location, "http", "ws", 1), "http://headlamp.example.com")
	require.NoError(t, err)
	config.Protocol = []string{"base64.binary.k8s.io"}
	socket, err = config.DialContext(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { socket.Close() })
	require.NoError(t, socket.SetDeadline(time.Now().Add(time.Minute)))
	return socket, func() string {
		var text string
		if err := websocket.Message.Receive(socket, &text); err != nil {
			return ""
		}
		return text
	}
}

func TestAWatchThroughAWebSocketHasAnEventInEachMessage(t *testing.T) {
	s, write := opened(t)
	ended := make(chan struct{})
	handler := NewHandler(s, nil, nil)
	location := serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler.ServeHTTP(w, req)
		close(ended)
	})) + watchedPath + "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	socket, next := dial(t, location)
	read := func() string {
		var e event
		text := next()
		require.NoError(t, json.Unmarshal([]byte(text), &e), "%q", text)
		return e.Type + " " + e.Object.Name
	}
	assert.Equal(t, "ADDED db", read())
	assert.Equal(t, "ADDED web", read())
	assert.Equal(t, "ADDED web", read())
	assert.Equal(t, "BOOKMARK ", read())
	write(change("default", "new", "8", nil), change("default", "db", "9", nil))
	assert.Equal(t, "ADDED new", read())
	assert.Equal(t, "MODIFIED db", read())
	require.NoError(t, socket.Close())
	<-ended
}

func TestAWatchThroughAWebSocketEndsInItsTime(t *testing.T) {
	location := serverOf(t, NewHandler(newStore(t), nil, nil)) + watchedPath + "&resourceVersion=10&timeoutSeconds=1"
	_, next := dial(t, location)
	assert.Empty(t, next())
}

func TestAWatchThatIsRefusedIsNoWebSocket(t *testing.T) {
	location := serverOf(t, NewHandler(newStore(t), nil, nil)) + watchedPath + "&orderby=name"
	config, err := websocket.NewConfig(strings.Replace(location, "http", "ws", 1), "http://headlamp.example.com")
	require.NoError(t, err)
	_, err = config.DialContext(t.Context())
	assert.ErrorContains(t, err, "bad status")
}

// received counts the bytes that a server reads.
type received struct {
	net.Listener
	bytes *atomic.Int64
}

func (r received) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	return receiving{conn, r.bytes}, err
}

type receiving struct {
	net.Conn
	bytes *atomic.Int64
}

func (r receiving) Read(into []byte) (int, error) {
	n, err := r.Conn.Read(into)
	r.bytes.Add(int64(n))
	return n, err
}

// TestAWatchReadsLittleOfAWebSocket has clients that send frames without an end.
func TestAWatchReadsLittleOfAWebSocket(t *testing.T) {
	mask := strings.Repeat("\x00", 4)
	for name, flood := range map[string]struct{ begin, rest string }{
		"pings":               {"", "\x89\x80" + mask},
		"large pings":         {"", "\x89\xfd" + mask + strings.Repeat("x", 125)},
		"pongs":               {"", "\x8a\x80" + mask},
		"empty texts":         {"", "\x81\x80" + mask},
		"parts of a text":     {"\x01\x80" + mask, "\x00\x80" + mask},
		"texts":               {"", "\x81\xfe\x04\x00" + mask + strings.Repeat("x", 1<<10)},
		"a huge text":         {"\x81\xff\x00\x00\x00\x7f\xff\xff\xff\xff" + mask, "x"},
		"a ping without end":  {"\x89\xff\x7f\xff\xff\xff\xff\xff\xff\xff" + mask, "x"},
		"frames of no kind":   {"", "\x8f\x80" + mask},
		"what is not masked":  {"", "\x89\x00"},
		"what is not a frame": {"", "\xff\xff\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler, ended := NewHandler(newStore(t), nil, nil), make(chan struct{})
			server := httptest.NewUnstartedServer(forAdministrator(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				defer close(ended)
				handler.ServeHTTP(w, req)
			})))
			var bytes atomic.Int64
			server.Listener = received{server.Listener, &bytes}
			server.Start()
			t.Cleanup(server.Close)
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_, err = fmt.Fprintf(conn, "GET /apis/clusterpedia.io/v1beta1/%s HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n%s", watchedPath+"&resourceVersion=10", flood.begin)
			require.NoError(t, err)
			go io.Copy(io.Discard, conn) //nolint:errcheck // answers to pings
			rest := []byte(strings.Repeat(flood.rest, 64<<10/len(flood.rest)))
			for sent := 0; err == nil; {
				var n int
				n, err = conn.Write(rest)
				require.Less(t, sent+n, 64<<20, "nobody reads so much")
				sent += n
			}
			<-ended
			assert.Less(t, bytes.Load(), int64(32<<10))
		})
	}
}

// TestAClientMayPing has a client that sends a ping now and then, and a frame of which it sends only the beginning. Its watch goes on.
func TestAClientMayPing(t *testing.T) {
	s, write := opened(t)
	socket, next := dial(t, serverOf(t, NewHandler(s, nil, nil))+watchedPath+"&resourceVersion=10")
	ping := websocket.Codec{Marshal: func(any) ([]byte, byte, error) { return []byte("are you there?"), websocket.PingFrame, nil }}
	for i := range 10 {
		require.NoError(t, ping.Send(socket, nil))
		write(change("default", fmt.Sprint("new", i), "8", nil))
		assert.Contains(t, next(), fmt.Sprintf(`"name":"new%d"`, i))
	}
}
