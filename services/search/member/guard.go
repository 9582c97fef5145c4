// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// failureSize bounds the body of an answer that is an error.
	failureSize = 64 << 10
	// discoveryObjects bounds the JSON objects of discovery, and the nulls, which may stand for objects: three bytes of JSON may become 300 in memory. A
	// resource with two subresources has six.
	discoveryObjects = 100_000
	// roundRequests bounds the documents of a round of discovery: old API servers have one for each group-version.
	roundRequests = 2000
	// largeDiscovery is the size of a document of discovery from which on it waits for memory.
	largeDiscovery = 1 << 20
)

// guard is between client-go and a member. It refuses redirects, decompresses with a limit, and bounds each answer.
type guard struct {
	*entrance
	next http.RoundTripper
}

// answer is how the answer to a request is read.
type answer int

const (
	// discovered is one of the documents of a round of discovery. The requests of client-go's discovery have no context to say so.
	discovered answer = iota
	// single is a document by itself.
	single
	// streamed is read as it comes. The reader has limits of its own.
	streamed
)

type answerKey struct{}

// expecting returns a context for requests whose answers are read in a certain way.
func expecting(ctx context.Context, kind answer) context.Context {
	return context.WithValue(ctx, answerKey{}, kind)
}

// round bounds the documents of discovery, which may be many at once.
type round struct {
	mu              sync.Mutex
	bytes, requests int64
	release         func()
}

func (r *round) begin(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes, r.requests = size, roundRequests
}

// end gives memory back when all documents were decoded.
func (r *round) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.release != nil {
		r.release()
	}
	r.release = nil
}

// ask counts a request, and reports whether it may be sent.
func (r *round) ask() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests--
	return r.requests >= 0
}

// add counts a document, and waits for memory if it is large.
func (r *round) add(ctx context.Context, e *entrance, size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes -= size; r.bytes < 0 {
		return limited("document-size", "member-max-document-size", "discovery has more than %s", &e.DocumentSize)
	}
	if size < largeDiscovery || r.release != nil {
		return nil
	}
	var err error
	r.release, err = e.holdLarge(ctx)
	return err
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	kind, _ := req.Context().Value(answerKey{}).(answer)
	if kind == streamed {
		return g.send(req)
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), g.Timeout,
		&LimitError{Limit: limitTime, Flag: "member-timeout", Message: fmt.Sprintf("no answer about %s in %s", req.URL.Path, g.Timeout)})
	defer cancel()
	if kind == discovered && !g.round.ask() {
		return nil, limited("document-size", "", "discovery has more than %d documents", roundRequests)
	}
	resp, err := g.send(req.WithContext(ctx))
	if err != nil {
		return nil, cause(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := g.document(req.URL.Path, resp)
	if err == nil && kind == discovered && resp.StatusCode < 300 {
		if err = g.round.add(ctx, g.entrance, int64(len(text))); err == nil {
			err = checkObjects(req.URL.Path, text)
		}
	}
	if err != nil {
		return nil, cause(ctx, err)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return resp, nil
}

// cause returns why a context has ended if that is a limit, or else the error.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); isLimit(why) && err != nil {
		limitsHit.WithLabelValues(limitTime).Inc()
		return why
	}
	return err
}

// send sends a request, and decompresses the answer.
func (g *guard) send(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept-Encoding", "gzip") // so no transport decompresses by itself
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		resp.Body.Close() //nolint:errcheck // it is not read
		return nil, errRedirect
	}
	// client-go waits as long as a Retry-After says, and logs each warning.
	resp.Header.Del("Retry-After")
	resp.Header.Del("Warning")
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		resp.Header.Del("Content-Encoding")
		resp.ContentLength, resp.Body = -1, &decompressed{ReadCloser: resp.Body}
	default:
		resp.Body.Close() //nolint:errcheck // it is not read
		return nil, fmt.Errorf("the API server answers in the encoding %q, which search did not ask for", encoding)
	}
	if resp.StatusCode >= 300 {
		resp.Body = &truncated{Reader: io.LimitReader(resp.Body, failureSize), Closer: resp.Body}
	}
	return resp, nil
}

type truncated struct {
	io.Reader
	io.Closer
}

// decompressed is a body that was compressed with gzip.
type decompressed struct {
	io.ReadCloser
	text *gzip.Reader
}

func (d *decompressed) Read(into []byte) (int, error) {
	if d.text == nil {
		text, err := gzip.NewReader(bufio.NewReader(d.ReadCloser))
		if err != nil {
			return 0, err
		}
		d.text = text
	}
	return d.text.Read(into)
}

// document reads a whole answer.
func (g *guard) document(path string, resp *http.Response) ([]byte, error) {
	limit := g.DocumentSize.Value()
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = limited("document-size", "member-max-document-size", "%s has more than %s", path, &g.DocumentSize)
	}
	return text, err
}

// checkObjects refuses a document with too many JSON objects.
func checkObjects(path string, text []byte) error {
	objects := 0
	for tokens := jsontext.NewDecoder(bytes.NewReader(text)); ; {
		token, err := tokens.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is not JSON: %w", path, err)
		}
		if token.Kind() == '{' || token.Kind() == 'n' {
			objects++
		}
		if objects > discoveryObjects || tokens.StackDepth() > maxDepth {
			return limited("document-size", "", "%s has more than %d parts, or is nested deeper than %d", path, discoveryObjects, maxDepth)
		}
	}
}
