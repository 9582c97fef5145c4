// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi serves one OpenAPI document over all servers.
//
// The package merges documents per server, not per APIService, and by raw top-level entries. It decodes no schema and keeps
// documents compressed: with hundreds of CRDs, decoded documents are most of the memory of a kube-apiserver.
//
// When a client asks, the package revalidates the documents of core and extensions, all at once and once for all clients that wait. If a
// server is silent, its last document stays. Documents of aggregated API servers, and the aggregator's own, come from kube-aggregator's
// OpenAPI controllers.
package openapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/parts"
	"github.com/tripod-k8s/tripod/base/hop/recovery"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// userAgent names the aggregator to backends as the reader of their documents.
const userAgent = "tripod-aggregator/openapi"

const (
	// fetchTimeout bounds a fetch. An extensions with many CRDs may render its document anew.
	fetchTimeout = 30 * time.Second
	// silence is how long clients wait for a server before they get its last document.
	silence = 2 * time.Second
	// firstSilence is how long clients wait for a server that has sent no document yet.
	firstSilence = 10 * time.Second
	// maxDocument bounds the size of a document. Thousands of CRDs make some tens of megabytes.
	maxDocument = 64 << 20
)

// maxNames bounds the paths, definitions and parameters of a document of v2, and what is directly below them, which are decoded into maps.
// A CustomResourceDefinition has 40 of them.
var maxNames = parts.Limits{Values: 500_000, Within: 3}

// maxMerged bounds the size of a document merged from some. It leaves room for one of the largest size from every server, and for what
// other forms need more: no document takes the place of another's.
func maxMerged(documents int) int64 { return int64(documents+1) * maxDocument }

// part is what one server contributes to a document. It keeps the last document that it got.
type part struct {
	name, path, accept string
	fetch              func(*http.Request) (*http.Response, error)
	// serves is Backend.Serves, or nil.
	serves func(schema.GroupVersion) bool
	// limited is Backend.Limited.
	limited bool
	// read returns a version of a document that the server has sent. last is nil or the one before, which it returns if nothing has changed.
	read reader

	last atomic.Pointer[version]

	mu sync.Mutex
	// running is closed when the fetch that is under way ends, and next when the one after it ends. They are nil if there is none.
	running, next chan struct{}
	// owing is when the server was asked for what it still owes, or zero.
	owing time.Time
}

// version is a document as a server sent it.
type version struct {
	etag       string
	compressed []byte

	// named are the group-versions that the document is about, once read.
	read  sync.Once
	named []schema.GroupVersion

	// index has the locations of documents by name, if the document is an index of v3, and digest that of its text.
	index  object
	digest [sha256.Size]byte
}

// readWhole keeps a document compressed.
func readWhole(document io.Reader, last *version) (*version, error) {
	compressed, err := compress(document, maxDocument)
	if err != nil {
		return nil, err
	}
	if last != nil && bytes.Equal(last.compressed, compressed) {
		return last, nil
	}
	return &version{compressed: compressed}, nil
}

// readJSON keeps a document in JSON compressed, if it has not too many names.
func readJSON(document io.Reader, last *version) (*version, error) {
	return readWhole(io.TeeReader(document, maxNames.Counter()), last)
}

// document returns the document, or nil if there is none.
func (v *version) document() ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return decompress(v.compressed)
}

// Backend is a service whose documents are merged.
type Backend interface {
	Name() string
	// AsAggregator returns a transport for requests in the aggregator's own name.
	AsAggregator() http.RoundTripper
	// Serves reports whether clients may find a group-version of the service. It is false for one that another service serves.
	Serves(gv schema.GroupVersion) bool
	// Limited reports whether clients find nothing else in the documents of the service. It is true for API services of others.
	Limited() bool
}

type reader = func(document io.Reader, last *version) (*version, error)

// partsOf are the documents of backends at a path.
func partsOf[B Backend](backends []B, path, accept string, read reader) []*part {
	parts := make([]*part, len(backends))
	for i, b := range backends {
		parts[i] = &part{name: b.Name(), path: path, accept: accept, read: read, fetch: b.AsAggregator().RoundTrip, serves: b.Serves,
			limited: b.Limited()}
	}
	return parts
}

// handlerPart is a document served in process, in JSON.
func handlerPart(name, path string, handler http.Handler, read reader) *part {
	return &part{name: name, path: path, accept: mediaJSON, read: read, fetch: func(req *http.Request) (*http.Response, error) {
		req, err := routing.Renew(req)
		if err != nil {
			return nil, err
		}
		ctx := request.WithUser(req.Context(), &user.DefaultInfo{Name: "system:aggregator"})
		w := responsewriter.NewInMemoryResponseWriter()
		handler.ServeHTTP(w, req.WithContext(ctx))
		return &http.Response{
			StatusCode: w.RespCode(),
			Status:     http.StatusText(w.RespCode()),
			Header:     w.Header(),
			Body:       io.NopCloser(bytes.NewReader(w.Data())),
		}, nil
	}}
}

// refresh revalidates all parts at once. It returns early if servers are silent or the context ends.
func refresh(ctx context.Context, parts ...*part) {
	var waiting sync.WaitGroup
	for _, p := range parts {
		waiting.Go(func() { p.refresh(ctx) })
	}
	waiting.Wait()
}

func (p *part) refresh(ctx context.Context) {
	fetched, owing := p.ask()
	wait := silence
	if p.last.Load() == nil {
		wait = firstSilence
	}
	if owing >= wait {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-fetched:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ask returns a channel that is closed when a fetch ends that begins from now on. It is the same for all who ask while one is under way.
// Owing is how long the server has been silent already.
func (p *part) ask() (fetched <-chan struct{}, owing time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		p.run(make(chan struct{}))
		return p.running, time.Since(p.owing)
	}
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.next, time.Since(p.owing)
}

// run begins a fetch. The mutex is held.
func (p *part) run(done chan struct{}) {
	p.running = done
	began := time.Now()
	if p.owing.IsZero() {
		p.owing = began
	}
	go func() {
		// It is for all who wait, so no client's context ends it.
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		err := p.tryRefresh(ctx)
		if err != nil {
			klog.V(2).InfoS("OpenAPI document could not be fetched, using the last known one", "server", p.name, "path", p.path, "err", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil || time.Since(began) < silence {
			p.owing = time.Time{}
		}
		close(done)
		if next := p.next; next != nil {
			p.next = nil
			p.run(next)
		} else {
			p.running = nil
		}
	}()
}

func (p *part) tryRefresh(ctx context.Context) (err error) {
	defer recovery.ToError(p.path+" of "+p.name, &err)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", p.accept)
	req.Header.Set("User-Agent", userAgent)
	last := p.last.Load()
	if last != nil && last.etag != "" {
		req.Header.Set("If-None-Match", last.etag)
	}
	resp, err := p.fetch(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end or not needed
	switch {
	case resp.StatusCode == http.StatusNotModified && last != nil:
		return nil
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s", p.path, resp.Status)
	}
	now, err := p.read(resp.Body, last)
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	if now == last {
		return nil
	}
	now.etag = resp.Header.Get("Etag")
	p.last.Store(now)
	return nil
}

func decompress(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// compress fails for documents beyond a limit. A document of 1,000 definitions has 48 MB, and requests wait for processor time meanwhile.
// The gzip of the standard library takes three times as long, for a document that is 8 % smaller (swagger.json of Kubernetes, 4.5 MB: 41
// and 14 ms).
func compress(document io.Reader, limit int64) ([]byte, error) {
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	n, err := io.Copy(w, io.LimitReader(document, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("the document is larger than %d bytes", limit)
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return compressed.Bytes(), nil
}
