// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// deafWatches is how many watches of an API server send until search can send nothing.
	deafWatches = 40
	// deafRounds is how many events each watch sends at most. Search has far more to send for them than the buffers of the connection take.
	deafRounds = 500
)

// deaf is an API server that answers watches, and then reads nothing from its connection any more.
type deaf struct {
	// handled has an entry for each event that search has handled.
	handled chan struct{}
	// stalled is closed when search handles nothing any more, because it waits to send, or when it has handled all.
	stalled chan struct{}
}

// listen returns a listener whose connections take little.
func (d *deaf) listen(t *testing.T) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2304)
			if failed == nil {
				failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536)
			}
		})
		if err != nil {
			return err
		}
		return failed
	}}
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

// serve answers the watches and sends bookmarks, each of which has search send that it has read so much, until search handles none.
func (d *deaf) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1000}) != nil {
		return
	}
	streams := d.answer(framer)
	bookmark := []byte(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2","annotations":{"a":"` + strings.Repeat("x", 4200) + `"}}}}` + "\n")
	for range deafRounds {
		for _, id := range streams {
			if framer.WriteData(id, false, bookmark) != nil {
				return
			}
		}
		if !d.isHandled(len(streams)) {
			break
		}
	}
	close(d.stalled)
	// Something comes now and then, so that the connection is not silent.
	for framer.WriteWindowUpdate(0, 1) == nil {
		time.Sleep(100 * time.Millisecond)
	}
}

// isHandled waits until search has handled so many events.
func (d *deaf) isHandled(events int) bool {
	for range events {
		select {
		case <-d.handled:
		case <-time.After(5 * time.Second):
			return false
		}
	}
	return true
}

// answer begins an answer for each watch.
func (d *deaf) answer(framer *http2.Framer) (streams []uint32) {
	for len(streams) < deafWatches {
		frame, err := framer.ReadFrame()
		if err != nil {
			return nil
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			var block bytes.Buffer
			headers := hpack.NewEncoder(&block)
			headers.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})                   //nolint:errcheck // to memory
			headers.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/json"}) //nolint:errcheck // to memory
			err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: block.Bytes(), EndHeaders: true})
			streams = append(streams, frame.StreamID)
		}
		if err != nil {
			return nil
		}
	}
	return streams
}

// TestAMemberThatReadsNothingHoldsNoWatch has an API server whose connection takes no bytes: what ends a request has to be sent, too. It
// ends with the time for that, or with the member.
func TestAMemberThatReadsNothingHoldsNoWatch(t *testing.T) {
	for name, times := range map[string]struct{ write, end time.Duration }{
		"that takes nothing": {100 * time.Millisecond, time.Hour}, "of a member that has ended": {time.Hour, 100 * time.Millisecond},
	} {
		t.Run("a connection "+name, func(t *testing.T) { endDeaf(t, times.write, times.end) })
	}
}

func endDeaf(t *testing.T, writeTime, endTime time.Duration) {
	d := &deaf{handled: make(chan struct{}, deafWatches), stalled: make(chan struct{})}
	server := httptest.NewUnstartedServer(nil)
	require.NoError(t, server.Listener.Close())
	server.Listener = d.listen(t)
	server.TLS = &tls.Config{NextProtos: []string{"h2"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) { d.serve(conn) },
	}
	limiter := newLimiter(t, nil)
	limiter.writeTime, limiter.endTime = writeTime, endTime
	m, err := New("deaf", served(t, server), Everything, Dependencies{Store: newStore(t), Limiter: limiter})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer m.cutOff(ctx)()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		assert.NoError(t, got.Conn.(*tls.Conn).NetConn().(*wire).Conn.(*net.TCPConn).SetWriteBuffer(4096))
	}})
	var watches sync.WaitGroup
	for i := range deafWatches {
		s := m.source()
		s.resource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: fmt.Sprint("things", i)}
		watches.Go(func() {
			s.watch(ctx, "1", false, func() {}, func(e event) error { //nolint:errcheck // it is cut off
				e.done()
				d.handled <- struct{}{}
				return nil
			})
		})
	}
	select {
	case <-d.stalled:
	case <-time.After(5 * time.Minute):
		require.Fail(t, "search can always send")
	}
	cancel()
	ended := make(chan struct{})
	go func() {
		watches.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		assert.Fail(t, "watches do not end")
	}
}
