// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withOwnHeaders is a handler behind others that have set headers already.
func withOwnHeaders(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Audit-Id", "of the aggregator")
		w.Header().Set("Cache-Control", "no-cache, private")
		next.ServeHTTP(w, req)
	}
}

// open sends the head of a request and returns the connection.
func open(t *testing.T, address, head string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // nothing is buffered
	_, err = io.WriteString(conn, head)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

func TestAnInterimAnswerHasNoHeaders(t *testing.T) {
	forwarder := front(t, jane, func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		assert.NoError(t, err)
		_, _ = w.Write(body)
	})
	outer := serve(t, jane, withOwnHeaders(forwarder.Config.Handler))
	conn, reader := open(t, outer.Listener.Addr().String(), "POST "+forObjects+" HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	interim, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusContinue, interim.StatusCode)
	assert.Empty(t, interim.Header)
	_, err = io.WriteString(conn, "ping")
	require.NoError(t, err)
	answer, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "ping", string(body))
	assert.Equal(t, "of the aggregator", answer.Header.Get("Audit-Id"))
}

func TestAnAnswerThatSwitchesProtocolsIsTheBackendsAlone(t *testing.T) {
	switching := func(w http.ResponseWriter, _ *http.Request) { echo(t, w, "websocket") }
	for name, handler := range map[string]http.Handler{
		"backend": front(t, jane, switching).Config.Handler, "aggregated": frontOfAggregated(t, switching).Config.Handler,
	} {
		t.Run(name, func(t *testing.T) {
			outer := serve(t, jane, withOwnHeaders(handler))
			_, reader := open(t, outer.Listener.Addr().String(), "GET /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			answer, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			assert.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
			assert.Equal(t, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, answer.Header)
		})
	}
}

func TestAClientGetsACompressedAnswerOfAnAggregatedServerOnlyIfItAsks(t *testing.T) {
	asked := make(chan string, 1)
	front := frontOfAggregated(t, func(w http.ResponseWriter, req *http.Request) {
		asked <- req.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Encoding", "gzip")
		compressed := gzip.NewWriter(w)
		_, _ = io.WriteString(compressed, "plain")
		_ = compressed.Close()
	})
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}} // which adds no header
	defer client.CloseIdleConnections()
	for _, tc := range []struct{ method, header, value, asked, encoding string }{
		{http.MethodGet, "", "", "gzip", ""},
		{http.MethodPost, "", "", "gzip", ""},
		{http.MethodHead, "", "", "", "gzip"},
		{http.MethodGet, "Range", "bytes=0-1", "", "gzip"},
		{http.MethodGet, "Accept-Encoding", "gzip", "gzip", "gzip"},
		{http.MethodGet, "Accept-Encoding", "identity", "identity", "gzip"}, // as with kube-apiserver
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, front.URL+forObjects, nil)
		require.NoError(t, err)
		if tc.header != "" {
			req.Header.Set(tc.header, tc.value)
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		assert.Equal(t, tc.asked, <-asked, "%+v", tc)
		assert.Equal(t, tc.encoding, resp.Header.Get("Content-Encoding"), "%+v", tc)
		if tc.encoding == "" {
			assert.Equal(t, "plain", string(body), "%+v", tc)
		} else {
			assert.False(t, strings.Contains(string(body), "plain"), "%+v", tc)
		}
	}
}
