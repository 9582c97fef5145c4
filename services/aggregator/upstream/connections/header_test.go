// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// serveText is a server of HTTP/1.1 that answers each request with a text, and then with another one again and again.
func serveText(t *testing.T, pki *connectionstest.PKI, text, again string) string {
	t.Helper()
	config := pki.ServerConfig(t, serverName)
	config.NextProtos = []string{"http/1.1"}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				_, err := io.WriteString(conn, text)
				for err == nil && again != "" {
					_, err = io.WriteString(conn, again)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestAnAnswerHasASmallHeader(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	for size, fits := range map[int]bool{connections.MaxHeader / 2: true, 2 * connections.MaxHeader: false, 16 * connections.MaxHeader: false} {
		names := make([]string, 0, size/64)
		for i := range size / 64 { // as both protocols count it
			names = append(names, fmt.Sprintf("X%027d", i))
		}
		one := serveText(t, pki, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"+strings.Join(names, ": "+strings.Repeat("x", 32)+"\r\n")+": x\r\n\r\nhello", "")
		two := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range names {
				w.Header()[name] = []string{"xxxx"}
			}
			_, _ = io.WriteString(w, "hello")
		})
		for address, wire := range map[string]connections.Wire{one: connections.Exclusive, two: connections.Multiplexed} {
			t.Run(fmt.Sprintf("%d bytes on wire %d", size, wire), func(t *testing.T) {
				pool, _ := newPool(t, pki, address)
				answer, err := do(t, pool, newRequest(t, http.MethodPost, ""), wire)
				if fits {
					require.NoError(t, err)
					assert.Equal(t, "hello", answer)
					return
				}
				require.Error(t, err)
				assert.False(t, connections.ReasonOf(err).Unprocessed(), err)
			})
		}
	}
}

// TestInterimAnswersEnd has a reader of interim answers, as httputil.ReverseProxy is one. net/http lets it bound them.
func TestInterimAnswersEnd(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	const interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
	interims := 0
	req := func() *http.Request {
		req := newRequest(t, http.MethodGet, "")
		return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			if interims++; interims > 1<<20 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}}))
	}
	pool, _ := newPool(t, pki, serveText(t, pki, "", interim))
	_, err := do(t, pool, req(), connections.Exclusive)
	assert.Equal(t, connections.Broken, connections.ReasonOf(err), err)
	assert.Less(t, interims, 100_000)

	// The body of an answer is no header.
	const length = 8 * connections.MaxHeader
	pool, _ = newPool(t, pki, serveText(t, pki, interim+fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", length)+strings.Repeat("x", length), ""))
	for range 3 {
		answer, err := do(t, pool, req(), connections.Exclusive)
		require.NoError(t, err)
		assert.Len(t, answer, length)
	}
}
