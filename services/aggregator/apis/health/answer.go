// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apiserver/pkg/util/responsewriter"
)

const (
	// backendTimeout is how long a backend may take to answer. Whoever asks for details waits longer than a probe does.
	backendTimeout = 2 * time.Second
	// maxAnswer is much more than the checks of a server take.
	maxAnswer = 1 << 20
)

// remoteAnswer is what a replica of a backend says. It is empty when there is none that does.
type remoteAnswer struct {
	code int
	text string
}

func get(ctx context.Context, b Backend, where *url.URL) remoteAnswer {
	ctx, cancel := context.WithTimeout(ctx, backendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return remoteAnswer{}
	}
	resp, err := b.AsAggregator().RoundTrip(req)
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

// recorded is an answer of the aggregator's own handler.
type recorded struct {
	code   int
	header http.Header
	body   []byte
}

// record returns what own answers to the request at a URL.
func record(own http.Handler, req *http.Request, at *url.URL) recorded {
	w := responsewriter.NewInMemoryResponseWriter()
	asked := *req
	asked.URL = at
	own.ServeHTTP(w, &asked)
	return recorded{code: cmp.Or(w.RespCode(), http.StatusOK), header: w.Header(), body: w.Data()}
}

func (r recorded) copyTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.code)
	_, _ = w.Write(r.body)
}
