// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"
)

const (
	// patience is how long a backend may take to answer. Whoever asks for details waits longer than a probe does.
	patience = 2 * time.Second
	// maxAnswer is much more than the checks of a server take.
	maxAnswer = 1 << 20
)

// remoteAnswer is what a replica of a backend says. It is empty when there is none that does.
type remoteAnswer struct {
	code int
	text string
}

func get(ctx context.Context, b Backend, where *url.URL) remoteAnswer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return remoteAnswer{}
	}
	resp, err := b.Own().RoundTrip(req)
	if err != nil {
		return remoteAnswer{}
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return remoteAnswer{}
	}
	return remoteAnswer{resp.StatusCode, string(text)}
}

// recorded is an http.ResponseWriter that keeps what is written.
type recorded struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// record returns what own answers to the request at a URL.
func record(own http.Handler, req *http.Request, at *url.URL) *recorded {
	r := &recorded{header: http.Header{}, code: http.StatusOK}
	asked := *req
	asked.URL = at
	own.ServeHTTP(r, &asked)
	return r
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r *recorded) WriteHeader(code int)        { r.code = code }

func (r *recorded) copyTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.code)
	_, _ = w.Write(r.body.Bytes())
}
