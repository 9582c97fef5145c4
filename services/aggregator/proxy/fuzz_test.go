// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/endpoints/request"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
)

// FuzzAnswer forwards whatever a backend may answer. A client gets the same by the short way of plain requests and by httputil.ReverseProxy,
// without what concerns only the connection to the backend.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nWarning: 299 - \"careful\"\r\n\r\nbody",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n4\r\nbody\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nConnection: close, X-Secret\r\nX-Secret: a\r\nAudit-Id: 7\r\n\r\nuntil the end",
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "HTTP/1.1 204 No\r\nUpgrade: h2c\r\nKeep-Alive: 5\r\nProxy-Authenticate: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "HTTP/1.0 999 \r\nWarning: a\r\nWarning: b\r\n\r\n",
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		if resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil); err != nil || resp.StatusCode < 200 || resp.StatusCode > 999 {
			return // refused by the HTTP client, or not passed on as an answer
		}
		transport := roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			return http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), req)
		})
		forwarder := NewForwarder("core", transport, requestmemory.New(0), NewEndings(), aggregatorscheme.Codecs, nil)
		forward := func(expect string) (answer *http.Response, body []byte, broken bool) {
			req := httptest.NewRequest(http.MethodGet, forObjects, nil)
			if expect != "" {
				req.Header.Set("Expect", expect) // makes it one that is not plain
			}
			ctx := context.WithValue(req.Context(), http.ServerContextKey, &http.Server{}) // without it httputil.ReverseProxy does not abort
			req = classified(t, req.WithContext(request.WithUser(ctx, jane)))
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if reason := recover(); reason != nil {
						require.Equal(t, http.ErrAbortHandler, reason)
						broken = true
					}
				}()
				forwarder.ServeHTTP(w, req)
			}()
			body, err := io.ReadAll(w.Body)
			require.NoError(t, err)
			return w.Result(), body, broken
		}
		plain, plainBody, plainBroken := forward("")
		other, otherBody, otherBroken := forward("nothing")
		require.Equal(t, other.StatusCode, plain.StatusCode)
		require.Equal(t, otherBroken, plainBroken)
		if !plainBroken {
			require.True(t, bytes.Equal(otherBody, plainBody))
		}
		for _, name := range append(hopByHop, "Audit-Id", "Strict-Transport-Security") {
			require.NotContains(t, plain.Header, name)
		}
		for name, values := range other.Header {
			if !strings.EqualFold(name, "Trailer") {
				require.Equal(t, values, plain.Header[name], name)
			}
		}
	})
}
