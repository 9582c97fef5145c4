// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/endpoints/request"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
)

// TestObjectsComeAsEverythingElse compares the two ways of an answer to the client.
func TestObjectsComeAsEverythingElse(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Warning"] = []string{"1", "2"}
			w.Header().Set("Keep-Alive", "timeout=1")
			w.Header().Set("Strict-Transport-Security", "a")
			w.WriteHeader(http.StatusCreated)
		},
		"nothing":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"not changed": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
		"long": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 50_000 {
				_, _ = io.WriteString(w, strconv.Itoa(i))
			}
		},
		"of known length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "short")
		},
		"error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) },
		"body": func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			_, _ = io.WriteString(w, req.Method+strconv.FormatInt(req.ContentLength, 10)+string(body))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := front(t, jane, handler)
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
				want, wantBody := answerTo(t, server, method, forOthers)
				got, gotBody := answerTo(t, server, method, forObjects)
				if got.StatusCode != want.StatusCode || gotBody != wantBody {
					t.Errorf("%s: %s, body %.60q; want %s, %.60q", method, got.Status, gotBody, want.Status, wantBody)
				}
				for _, header := range []http.Header{want.Header, got.Header} {
					header.Del("Date")
					header.Del("Content-Length") // the server may know it, or not
				}
				assert.Empty(t, cmp.Diff(want.Header, got.Header), "%s: headers (-others +objects)", method)
			}
		})
	}
}

func answerTo(t *testing.T, server *httptest.Server, method, path string) (*http.Response, string) {
	t.Helper()
	var content io.Reader
	if method == http.MethodPost {
		content = strings.NewReader("content")
	}
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, content)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

// BenchmarkForward is what forwarding a small object adds to its way through a transport, compared with what
// httputil.ReverseProxy adds for requests of other kinds.
func BenchmarkForward(b *testing.B) {
	content := bytes.Repeat([]byte("x"), 1200)
	transport := roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		header := http.Header{
			"Content-Type": {"application/json"}, "Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}, "Audit-Id": {"1"},
			"Cache-Control": {"no-cache, private"}, "X-Kubernetes-Pf-Flowschema-Uid": {"1"}, "X-Kubernetes-Pf-Prioritylevel-Uid": {"2"},
		}
		return &http.Response{
			StatusCode: http.StatusOK, Header: header, ContentLength: int64(len(content)), Body: io.NopCloser(bytes.NewReader(content)), Request: req,
		}, nil
	})
	forwarder := NewForwarder("core", transport, requestmemory.New(0), NewEndings(), aggregatorscheme.Codecs, nil)
	for name, path := range map[string]string{"object": "/api/v1/namespaces/a/pods/b", "other": forOthers} {
		b.Run(name, func(b *testing.B) {
			req := httptest.NewRequest(http.MethodGet, path, nil)
			req.Header.Set("Accept", "application/json")
			req.Header.Set("User-Agent", "kubectl")
			req = classified(b, req.WithContext(request.WithUser(b.Context(), jane)))
			b.ReportAllocs()
			for b.Loop() {
				forwarder.ServeHTTP(discard{http.Header{}}, req)
			}
		})
	}
}

// discard is a client that forgets what it gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
func (discard) Flush()                      {}
