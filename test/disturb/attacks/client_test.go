// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/client-go/rest"
)

// attacker is an HTTP/2 client that ignores the rules. It receives what arrives, but grants no more window for an answer.
type attacker struct {
	conn   *tls.Conn
	framer *http2.Framer

	sending sync.Mutex
	headers bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32

	receiving sync.Mutex
	// answers counts answers by status. resets counts the streams that the server reset.
	answers map[int]int
	resets  int
	// gone is closed after the server has closed the connection.
	gone chan struct{}
}

// connect opens a TCP connection to the server in a configuration.
func connect(t *testing.T, config *rest.Config) net.Conn {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	conn, err := net.DialTimeout("tcp", target.Host, time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return conn
}

// dial opens a TLS connection as the user in a configuration.
func dial(t *testing.T, config *rest.Config, protocols ...string) *tls.Conn {
	t.Helper()
	settings, err := rest.TLSConfigFor(config)
	require.NoError(t, err)
	settings.NextProtos = protocols
	if settings.ServerName == "" {
		target, err := url.Parse(config.Host)
		require.NoError(t, err)
		settings.ServerName = target.Hostname()
	}
	conn := tls.Client(connect(t, config), settings)
	require.NoError(t, conn.HandshakeContext(t.Context()))
	return conn
}

// attack opens a connection with this window for each answer.
func attack(t *testing.T, config *rest.Config, window uint32) *attacker {
	t.Helper()
	a := &attacker{conn: dial(t, config, http2.NextProtoTLS), answers: map[int]int{}, gone: make(chan struct{})}
	a.framer, a.encoder = http2.NewFramer(a.conn, a.conn), hpack.NewEncoder(&a.headers)
	a.framer.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	if _, err := a.conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	a.send(t, func() error {
		return a.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	})
	// The window of the connection must not be the limit.
	a.send(t, func() error { return a.framer.WriteWindowUpdate(0, 1<<30) })
	go a.receive()
	return a
}

func (a *attacker) send(t *testing.T, write func() error) {
	a.sending.Lock()
	defer a.sending.Unlock()
	if err := write(); err != nil && !a.isGone() {
		t.Error(err)
	}
}

func (a *attacker) isGone() bool {
	select {
	case <-a.gone:
		return true
	case <-time.After(time.Second): // writes may fail first
		return false
	}
}

// request sends the headers of a request, and returns the stream. If ends is false, a body may follow.
func (a *attacker) request(t *testing.T, method, path string, ends bool, more ...hpack.HeaderField) (stream uint32) {
	a.send(t, func() error {
		stream = 2*a.stream + 1
		a.stream++
		a.headers.Reset()
		for _, field := range append([]hpack.HeaderField{
			{Name: ":method", Value: method}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: path}, {Name: ":authority", Value: "localhost"},
		}, more...) {
			if err := a.encoder.WriteField(field); err != nil {
				return err
			}
		}
		return a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.headers.Bytes(), EndHeaders: true, EndStream: ends})
	})
	return stream
}

// beginHeaders sends size bytes of headers without an end.
func (a *attacker) beginHeaders(t *testing.T, size int) {
	const piece = 16 << 10
	a.send(t, func() error {
		a.headers.Reset()
		for a.headers.Len() < size {
			field := hpack.HeaderField{Name: fmt.Sprint("x-", a.headers.Len()), Value: strings.Repeat("~", 1<<10), Sensitive: true} // HPACK does not compress it
			if err := a.encoder.WriteField(field); err != nil {
				return err
			}
		}
		if err := a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.headers.Next(piece)}); err != nil {
			return err
		}
		for a.headers.Len() > 0 {
			if err := a.framer.WriteContinuation(1, false, a.headers.Next(piece)); err != nil {
				return err
			}
		}
		return nil
	})
}

// receive reads until the connection ends.
func (a *attacker) receive() {
	defer close(a.gone)
	for {
		frame, err := a.framer.ReadFrame()
		if err != nil {
			return
		}
		a.sending.Lock()
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = a.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = a.framer.WritePing(true, f.Data)
			}
		}
		a.sending.Unlock()
		if err != nil {
			return
		}
		a.count(frame)
	}
}

func (a *attacker) count(frame http2.Frame) {
	a.receiving.Lock()
	defer a.receiving.Unlock()
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		if status, err := strconv.Atoi(f.PseudoValue("status")); err == nil {
			a.answers[status]++
		}
	case *http2.RSTStreamFrame:
		a.resets++
	}
}

// got returns the answers by status, and the number of streams that the server reset.
func (a *attacker) got() (answers map[int]int, resets int) {
	a.receiving.Lock()
	defer a.receiving.Unlock()
	return maps.Clone(a.answers), a.resets
}
