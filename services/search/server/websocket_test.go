// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"strings"
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
