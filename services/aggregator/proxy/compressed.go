// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// roundTripCompressed asks for a compressed answer if the client does not say which encodings it can read, and decompresses it for the
// client. It has the rules of http.Transport, which kube-apiserver uses towards aggregated API servers. The aggregator's own transports
// pass bodies on as they are.
func roundTripCompressed(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if req.Header.Get("Accept-Encoding") != "" || req.Header.Get("Range") != "" || req.Method == http.MethodHead {
		return next.RoundTrip(req)
	}
	asking := req.Clone(req.Context())
	asking.Header.Set("Accept-Encoding", "gzip")
	resp, err := next.RoundTrip(asking)
	if err != nil || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return resp, err
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Uncompressed = true
	resp.Body = &gunzipped{compressed: resp.Body}
	return resp, nil
}

// gunzipped decompresses a body. It reads nothing before its reader does, because the first event of a watch may be late.
type gunzipped struct {
	compressed io.ReadCloser
	plain      *gzip.Reader
	err        error
}

func (g *gunzipped) Read(p []byte) (int, error) {
	if g.plain == nil && g.err == nil {
		g.plain, g.err = gzip.NewReader(g.compressed)
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.plain.Read(p)
}

func (g *gunzipped) Close() error { return g.compressed.Close() }
