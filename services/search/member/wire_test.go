// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// served starts a server with TLS, and returns the configuration of its clients.
func served(t *testing.T, server *httptest.Server) *rest.Config {
	t.Helper()
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// TestFramesThatBelongToNoAnswerHaveALimit has a member send frames without an end instead of an answer.
func TestFramesThatBelongToNoAnswerHaveALimit(t *testing.T) {
	for name, frame := range map[string]func(*http2.Framer) error{
		"windows of no stream": func(f *http2.Framer) error { return f.WriteWindowUpdate(99, 1) },
		"settings":             func(f *http2.Framer) error { return f.WriteSettings(http2.Setting{ID: 77, Val: 1}) },
		"pings":                func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			var many bytes.Buffer
			framer := http2.NewFramer(&many, nil)
			for many.Len() < 15<<10 {
				require.NoError(t, frame(framer))
			}
			server := httptest.NewUnstartedServer(nil)
			server.TLS = &tls.Config{NextProtos: []string{"h2"}}
			server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
				if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				go io.Copy(io.Discard, conn) //nolint:errcheck // until it is closed
				own := http2.NewFramer(conn, nil)
				err := own.WriteSettings()
				for err == nil {
					_, err = conn.Write(many.Bytes())
				}
			}}
			m := newMember(t, served(t, server), func(l *Limits) { l.Resources = 1 })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Second)
			defer cancel()
			_, _, _, err := m.source().page(ctx, "", nil)
			require.NoError(t, ctx.Err(), "the list has ended by itself")
			assert.True(t, isLimit(err), err)
			assert.ErrorContains(t, err, "belong to no answer")
		})
	}
}

// TestAnswersAreNoOverhead holds that a member may send as much as it likes in answers, in small pieces, too.
func TestAnswersAreNoOverhead(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[{}`) //nolint:errcheck // the client is gone
		for range 20_000 {
			io.WriteString(w, `,{"metadata":{"name":"a"},"data":{"x":"`+strings.Repeat("x", 1000)+`"}}`) //nolint:errcheck // the client is gone
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, `]}`) //nolint:errcheck // the client is gone
	}))
	server.EnableHTTP2 = true
	m := newMember(t, served(t, server), func(l *Limits) { l.Resources = 1 })
	m.limiter.overhead.most = 1 << 20
	_, _, count, err := m.source().page(t.Context(), "", func(item) error { return nil })
	require.NoError(t, err)
	assert.Equal(t, 20_001, count)
}

// TestHeadersOfAMemberAreShort holds that a long header is refused, and that search keeps little of a short one while it reads the body.
func TestHeadersOfAMemberAreShort(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, fields := range []int{100, 1000} {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for i := range fields {
					w.Header().Set(fmt.Sprintf("X%d", i), "1234")
				}
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"items":[]}`) //nolint:errcheck // the client is gone
			}))
			server.EnableHTTP2 = !plain
			config := served(t, server)
			m := newMember(t, config, nil)
			client, err := m.limiter.client(config)
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(expecting(t.Context(), streamed), http.MethodGet, server.URL, http.NoBody)
			require.NoError(t, err)
			resp, err := client.Do(req)
			if fields == 1000 {
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, http.Header{"Content-Type": {"application/json"}}, resp.Header)
			resp.Body.Close()
		}
	}
}

// TestAnswersThatWaitKeepNoOtherFromComing has many streams of a member wait for slots, with as much unread as they may send.
func TestAnswersThatWaitKeepNoOtherFromComing(t *testing.T) {
	const waiting = 60
	var sent atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(req.URL.Path, "/apis/large") {
			io.WriteString(w, `{"type":"ADDED","object":{"a":"`) //nolint:errcheck // the client is gone
			for req.Context().Err() == nil {
				n, _ := io.WriteString(w, strings.Repeat("x", 1<<10))
				sent.Add(int64(n))
			}
			return
		}
		io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[{}]}`) //nolint:errcheck // the client is gone
	}))
	server.EnableHTTP2 = true
	m := newMember(t, served(t, server), nil)
	defer takeAll(t, m.limiter.Limiter.slots)()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	defer func() {
		cancel()
		for range waiting {
			<-ended
		}
	}()
	for i := range waiting {
		go func() {
			s := m.source()
			s.resource = schema.GroupVersionResource{Group: "large", Version: "v1", Resource: fmt.Sprint("things", i)}
			readAll(ctx, s, "watch") //nolint:errcheck // the test ends it
			ended <- struct{}{}
		}()
	}
	// Each was read as far as it may be without a slot, and has half of what it may send besides.
	require.Eventually(t, func() bool { return sent.Load() > waiting*(tinyObject+streamBuffer/2) }, time.Minute, 10*time.Millisecond)
	for _, resource := range []schema.GroupVersionResource{
		configMaps, {Version: "v1", Resource: "namespaces"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	} {
		s := m.source()
		s.resource = resource
		within, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, _, count, err := s.page(within, "", func(i item) error { i.done(); return nil })
		cancel()
		require.NoError(t, err, resource)
		assert.Equal(t, 1, count)
		require.NoError(t, s.ask(t.Context()))
	}
}
