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
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/util/responsewriter"

	"github.com/tripod-k8s/tripod/base/hop/recovery"
)

const (
	// backendTimeout is how long a backend may take to answer. A client that asks for details waits longer than a probe does.
	backendTimeout = 2 * time.Second
	// maxAnswer is much more than the checks of a server take.
	maxAnswer = 1 << 20
	// freshness is how long the answers of backends are shown again.
	freshness = time.Second
)

// answers are those of all backends to one question.
type answers struct {
	asking sync.Mutex
	at     time.Time
	last   []remoteAnswer
}

// all is where a server says how all of its checks are.
func all(root string) *url.URL { return &url.URL{Path: root, RawQuery: "verbose"} }

// ask returns the answers of the backends, in their order. It asks them all at once, unless it has recent answers. Several clients may wait
// for the answers, so no client's context ends the requests.
func (h *Handler) ask(where *url.URL) []remoteAnswer {
	known, _ := h.answers.LoadOrStore(where.String(), &answers{})
	recent := known.(*answers)
	recent.asking.Lock()
	defer recent.asking.Unlock()
	if !recent.at.IsZero() && time.Since(recent.at) < freshness {
		return recent.last
	}
	answers := make([]remoteAnswer, len(h.backends))
	var asking sync.WaitGroup
	for i, b := range h.backends {
		asking.Go(func() { answers[i] = get(b, where) })
	}
	asking.Wait()
	recent.last, recent.at = answers, time.Now()
	return answers
}

// reason returns why a check of a backend fails. The list of all checks does not say it.
func (h *Handler) reason(backend int, path string) string {
	answer := h.ask(&url.URL{Path: path})[backend]
	if answer.code != http.StatusInternalServerError {
		return "the check failed in " + h.backends[backend].Name()
	}
	return strings.TrimPrefix(strings.TrimSuffix(answer.text, "\n"), "internal server error: ")
}

// remoteAnswer is the answer of a replica of a backend. It is empty if no replica answers.
type remoteAnswer struct {
	code int
	text string
}

func get(b Backend, where *url.URL) remoteAnswer {
	var err error
	defer recovery.ToError(where.Path+" of "+b.Name(), &err)
	ctx, cancel := context.WithTimeout(context.Background(), backendTimeout)
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

// record returns the answer of own to the request at a URL.
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
