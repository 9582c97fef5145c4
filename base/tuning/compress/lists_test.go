// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package compress

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/endpoints/request"
)

var list = request.RequestInfo{IsResourceRequest: true, Verb: "list", Resource: "configmaps"}

// content returns n bytes that compress somewhat.
func content(n int) []byte {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh"[random.IntN(8)]
	}
	return b
}

// serve returns what a server with Lists answers, and the body as the client reads it.
func serve(t *testing.T, method, accept string, info request.RequestInfo, handler http.HandlerFunc) (*http.Response, []byte) {
	t.Helper()
	lists := Lists(handler)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		lists.ServeHTTP(w, req.WithContext(request.WithRequestInfo(req.Context(), &info)))
	}))
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL, http.NoBody)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	if accept != "" {
		req.Header.Set("Accept-Encoding", accept)
	}
	resp, err := client.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	if resp.Header.Get("Content-Encoding") == "gzip" {
		reader, err := gzip.NewReader(bytes.NewReader(body))
		require.NoError(t, err)
		body, err = io.ReadAll(reader)
		require.NoError(t, err)
		require.NoError(t, reader.Close())
	}
	return resp, body
}

func TestLargeListsAreCompressed(t *testing.T) {
	get, large := http.MethodGet, threshold+1
	watch := list
	watch.Verb = "watch"
	object := list
	object.Verb = "get"
	log := list
	log.Subresource = "log"
	for name, test := range map[string]struct {
		method, accept string
		info           request.RequestInfo
		// writes are the sizes of what the handler writes, in this order.
		writes     []int
		compressed bool
	}{
		"in one piece":                      {get, "gzip", list, []int{large}, true},
		"in pieces":                         {get, "gzip", list, []int{1, threshold / 2, threshold / 2}, true},
		"in pieces, with more to follow":    {get, "gzip", list, []int{1, threshold, 1 << 20, 3}, true},
		"in pieces, one of them large":      {get, "gzip", list, []int{1, 4 << 20}, true},
		"with other encodings":              {get, "br, gzip , deflate", list, []int{large}, true},
		"at the threshold":                  {get, "gzip", list, []int{threshold}, false},
		"at the threshold in pieces":        {get, "gzip", list, []int{1, threshold - 1}, false},
		"a small first piece, then large":   {get, "gzip", list, []int{opening + 1, large}, false},
		"empty":                             {get, "gzip", list, nil, false},
		"for a client that takes no gzip":   {get, "", list, []int{large}, false},
		"for a client that gives weights":   {get, "gzip;q=1", list, []int{large}, false},
		"for a client with another gzip":    {get, "x-gzip", list, []int{large}, false},
		"a watch":                           {get, "gzip", watch, []int{large}, false},
		"a single object":                   {get, "gzip", object, []int{large}, false},
		"a subresource":                     {get, "gzip", log, []int{large}, false},
		"not a resource":                    {get, "gzip", request.RequestInfo{Verb: "list"}, []int{large}, false},
		"a deletion of a whole collection":  {http.MethodDelete, "gzip", list, []int{large}, false},
		"a request for nothing but headers": {http.MethodHead, "gzip", list, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var written []byte
			resp, body := serve(t, test.method, test.accept, test.info, func(w http.ResponseWriter, req *http.Request) {
				if test.compressed && req.Header.Get("Accept-Encoding") != "" {
					t.Error("the serializer would compress, too")
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusAccepted)
				for _, size := range test.writes {
					p := content(size)
					n, err := w.Write(p)
					if n != size || err != nil {
						t.Errorf("write of %d bytes: %d, %v", size, n, err)
					}
					written = append(written, p...)
					clear(p) // a writer may use it again
				}
			})
			require.Equal(t, http.StatusAccepted, resp.StatusCode)
			require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			require.True(t, bytes.Equal(written, body), "%d bytes written, %d read", len(written), len(body))
			if test.compressed {
				require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
				require.Equal(t, []string{"Accept-Encoding"}, resp.Header.Values("Vary"))
			} else {
				require.Empty(t, resp.Header.Get("Content-Encoding"))
				require.Empty(t, resp.Header.Values("Vary"))
			}
		})
	}
}

func TestAHandlerThatEncodesIsLeftAlone(t *testing.T) {
	for name, value := range map[string]string{"Content-Encoding": "br", "Content-Length": "200000"} {
		t.Run(name, func(t *testing.T) {
			resp, body := serve(t, http.MethodGet, "gzip", list, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(name, value)
				_, _ = w.Write(content(200_000))
			})
			require.Equal(t, value, resp.Header.Get(name))
			require.True(t, bytes.Equal(content(200_000), body))
		})
	}
}

func TestWhatIsFlushedIsSent(t *testing.T) {
	for name, size := range map[string]int{"before it is large": 1, "compressed": threshold + 1} {
		t.Run(name, func(t *testing.T) {
			_, body := serve(t, http.MethodGet, "gzip", list, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(content(size))
				w.(http.Flusher).Flush()
				_, _ = w.Write(content(300_000))
			})
			require.True(t, bytes.Equal(append(content(size), content(300_000)...), body))
		})
	}
}

func TestABrokenOffListLooksBroken(t *testing.T) {
	w := httptest.NewRecorder()
	require.Panics(t, func() {
		req := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		req.Header.Set("Accept-Encoding", "gzip")
		Lists(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(content(300_000))
			panic(http.ErrAbortHandler)
		})).ServeHTTP(w, req.WithContext(request.WithRequestInfo(req.Context(), &list)))
	})
	reader, err := gzip.NewReader(w.Body)
	if err == nil {
		_, err = io.ReadAll(reader)
	}
	require.ErrorContains(t, err, "EOF")
}
