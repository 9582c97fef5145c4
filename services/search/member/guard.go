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
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// failureSize bounds the body of an answer that is an error.
	failureSize = 64 << 10
	// discoveryObjects bounds the JSON objects of a round of discovery, and the nulls, which may stand for objects: three bytes of JSON may
	// become 300 in memory. A resource with two subresources has six. discoveryParts bounds the names and values of all kinds.
	discoveryObjects, discoveryParts = 100_000, 1_000_000
	// roundRequests bounds the documents of a round of discovery: old API servers have one for each group-version.
	roundRequests = 2000
	// largeDiscovery are the bytes, and manyObjects the objects, of a round from which on it waits for memory. manyVersions are the objects of
	// a document that may be one of groups: client-go then asks about all of their versions at once.
	largeDiscovery, manyObjects, manyVersions = 1 << 20, 10_000, 300
	// maxDelays is how many times waitTimeout the answers of a round may take to begin in all.
	maxDelays = 5
)

// guard is between client-go and a member. It refuses redirects, decompresses with a limit, and bounds each answer.
type guard struct {
	*memberLimiter
	// next is for few requests, and bulk for those that copy objects: there may be many of these, and they may wait for long until search
	// reads on.
	next, bulk http.RoundTripper
}

// answer is how the answer to a request is read.
type answer int

const (
	// discovered is one of the documents of a round of discovery. The requests of client-go's discovery have no context to say so.
	discovered answer = iota
	// single is a document by itself.
	single
	// streamed is read as it comes. The reader has limits of its own. inBulk is the same for objects that wait for others.
	streamed
	inBulk
)

type answerKey struct{}

// expecting returns a context for requests whose answers are read in a certain way.
func expecting(ctx context.Context, kind answer) context.Context {
	return context.WithValue(ctx, answerKey{}, kind)
}

// round bounds the documents of discovery, which may be many at once. They count together: client-go keeps all of them.
type round struct {
	mu sync.Mutex
	// requests, objects and parts are those that may still come, and bytes have come.
	requests, objects, parts int
	bytes                    int64
	permit                   *permit
	// delays are how long answers have taken to begin while the round had a permit.
	delays time.Duration
	// asking ends with the round, or when it loses its pace.
	asking context.Context // requests of client-go's discovery have no context
	lost   context.CancelCauseFunc
	// failure is the first limit that the round has reached.
	failure *LimitError
}

func (r *round) begin(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests, r.objects, r.parts, r.bytes, r.failure, r.delays = roundRequests, discoveryObjects, discoveryParts, 0, nil, 0
	r.asking, r.lost = context.WithCancelCause(ctx)
}

// end gives memory back when all documents were decoded.
func (r *round) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost(nil)
	if r.permit != nil {
		r.permit.release()
	}
	r.permit = nil
}

// failed returns the first limit that the round has reached, or nil. client-go may take it for the failure of a group.
func (r *round) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return r.failure
	}
	if lost := (*LimitError)(nil); errors.As(context.Cause(r.asking), &lost) {
		return lost
	}
	return nil
}

// fail notes a limit, which a flag may set. The caller has locked the round.
func (r *round) fail(flag, message string, args ...any) error {
	if r.failure == nil {
		r.failure = limited("document-size", flag, message, args...)
	}
	return r.failure
}

// ask counts a request, and refuses one too many. The round ends the request if it loses its pace before stop is called.
func (r *round) ask(end context.CancelCauseFunc) (stop func() bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests--; r.requests < 0 {
		return nil, r.fail("", "discovery has more than %d documents", roundRequests)
	}
	asking := r.asking
	return context.AfterFunc(asking, func() { end(context.Cause(asking)) }), nil
}

// awaits is called when a request is sent, and what it returns when the answer begins. A member of which search has a large document may
// take its time for the beginning of few others: an API server behind it may be slow.
func (r *round) awaits(waitTimeout time.Duration) (answered func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	permit, began := r.permit, time.Now()
	if permit == nil {
		return func() {}
	}
	free := waitTimeout
	if r.delays > maxDelays*waitTimeout {
		free = 0
	}
	counts := time.AfterFunc(free, permit.awaits)
	return func() {
		if !counts.Stop() {
			permit.came(0)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.delays += time.Since(began)
	}
}

// current returns the permit of the round, or nil.
func (r *round) current() *permit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.permit
}

// read counts bytes as they come, and waits for memory once there are many.
func (r *round) read(ctx context.Context, e *memberLimiter, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes += int64(n); r.bytes > e.DocumentSize.Value() {
		return r.fail("member-max-document-size", "discovery has more than %s", &e.DocumentSize)
	}
	return r.hold(ctx, e, r.bytes >= largeDiscovery)
}

// hold waits for memory if a round is large. The caller has locked the round.
func (r *round) hold(ctx context.Context, e *memberLimiter, large bool) (err error) {
	if large && r.permit == nil {
		if r.permit, err = e.holdLarge(ctx, r.lost); err == nil {
			r.permit.within(e.Timeout)
		}
	}
	return err
}

// add counts what a document has, before it is decoded.
func (r *round) add(ctx context.Context, e *memberLimiter, path, contentType string, text []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.objects
	for tokens := jsontext.NewDecoder(bytes.NewReader(text), asSent); ; {
		token, err := tokens.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s is not JSON: %w", path, err)
		}
		if r.parts--; token.Kind() == '{' || token.Kind() == 'n' {
			r.objects--
		}
		if r.objects < 0 || r.parts < 0 || tokens.StackDepth() > maxDepth {
			return r.fail("", "discovery has more than %d objects or %d parts, or is nested deeper than %d", discoveryObjects, discoveryParts,
				maxDepth)
		}
	}
	asks := before-r.objects > manyVersions && !strings.Contains(contentType, "APIGroupDiscoveryList")
	return r.hold(ctx, e, asks || r.objects < discoveryObjects-manyObjects)
}

// roundReader reads a document of a round.
type roundReader struct {
	ctx context.Context // that of the request
	*memberLimiter
	from io.Reader
}

func (r *roundReader) Read(into []byte) (int, error) {
	permit := r.round.current()
	permit.awaits()
	n, err := r.from.Read(into)
	permit.came(n)
	if failed := r.round.read(r.ctx, r.memberLimiter, n); failed != nil {
		return 0, failed
	}
	return n, err
}

// permitReader reads a document by itself.
type permitReader struct {
	*holder
	ctx     context.Context // that of the request
	limiter *memberLimiter
	from    io.Reader
	count   int
}

func (r *permitReader) Read(into []byte) (int, error) {
	r.permit.awaits()
	n, err := r.from.Read(into)
	r.permit.came(n)
	if r.count += n; r.count > smallObject {
		if failed := r.hold(r.ctx, r.limiter); failed != nil {
			return 0, failed
		}
	}
	return n, err
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	kind, _ := req.Context().Value(answerKey{}).(answer)
	switch kind {
	case inBulk:
		return g.send(g.bulk, g.connections.inBulk, req)
	case streamed:
		return g.send(g.next, g.connections.connecting, req)
	}
	ctx, end := context.WithCancelCause(req.Context())
	defer end(nil)
	slow := newClock(g.Timeout, func() {
		end(&LimitError{Limit: limitTime, Flag: "member-timeout", Message: fmt.Sprintf("no answer about %s in %s", req.URL.Path, g.Timeout)})
	})
	answered := func() {}
	if kind == discovered {
		stop, err := g.round.ask(end)
		if err != nil {
			return nil, err
		}
		defer stop()
		answered = g.round.awaits(g.waitTimeout)
	}
	var resp *http.Response
	var err error
	slow.wait(func() { resp, err = g.send(g.next, g.connections.connecting, req.WithContext(ctx)) }) //nolint:bodyclose // it is closed below
	answered()
	if err != nil {
		return nil, cause(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body := io.Reader(&clockReader{slow, resp.Body})
	if held, _ := ctx.Value(holderKey{}).(*holder); kind == discovered {
		body = &roundReader{ctx, g.memberLimiter, body}
	} else if held != nil {
		body = &permitReader{holder: held, ctx: ctx, limiter: g.memberLimiter, from: body}
	}
	text, err := g.document(req.URL.Path, body)
	if err == nil && kind == discovered && resp.StatusCode < 300 {
		err = g.round.add(ctx, g.memberLimiter, req.URL.Path, resp.Header.Get("Content-Type"), text)
	}
	g.charge(len(text) / changeSize)
	if err != nil {
		return nil, cause(ctx, err)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return resp, nil
}

// cause returns why a context has ended if that is a limit, or else the error.
func cause(ctx context.Context, err error) error {
	if limit := (*LimitError)(nil); err != nil && errors.As(context.Cause(ctx), &limit) {
		limitsHit.WithLabelValues(limit.Limit).Inc()
		return limit
	}
	return err
}

// send sends a request, and decompresses the answer.
func (g *guard) send(by http.RoundTripper, slots chan struct{}, req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	accepted := "gzip"
	if req.URL.Query().Get("watch") == "true" { // API servers compress none, and each would take memory as long as it lasts
		accepted = "identity"
	}
	req.Header.Set("Accept-Encoding", accepted) // so no transport decompresses by itself
	resp, sent, err := g.connections.send(by, slots, req)
	if err != nil {
		return nil, err
	}
	resp.Body = &wireBody{resp.Body, g.overhead, sent}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		resp.Body.Close() //nolint:errcheck // it is not read
		return nil, errRedirect
	}
	keepLittle(resp) // client-go also waits as long as a Retry-After says, and logs each warning
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case accepted:
		resp.Header.Del("Content-Encoding")
		resp.ContentLength, resp.Body = -1, &decompressed{ReadCloser: resp.Body}
	default:
		resp.Body.Close() //nolint:errcheck // it is not read
		return nil, fmt.Errorf("%w: %.20q", errEncoding, encoding)
	}
	if resp.StatusCode >= 300 {
		shorten(resp)
	}
	return resp, nil
}

// errEncoding says that an answer is compressed although the request did not allow it.
var errEncoding = errors.New("the API server answers in an encoding that search did not ask for")

// shorten leaves of an error what search reads of it. client-go decodes and keeps all of a Status, whose causes take 20 times their bytes.
func shorten(resp *http.Response) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, failureSize))
	resp.Body.Close() //nolint:errcheck // it was read
	if err == nil {
		if status, is := statusOf(text); is {
			status.Code = int32(resp.StatusCode)
			text, err = json.Marshal(status)
			resp.Header.Set("Content-Type", "application/json")
		}
	}
	if err != nil {
		text = nil // the code says enough
	}
	text = text[:min(len(text), failureText)]
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
}

// failureText bounds what is kept of an error of a member.
const failureText = 2 << 10

// statusOf reads what search needs of a Status.
func statusOf(text []byte) (status *metav1.Status, is bool) {
	var read struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Reason  string `json:"reason"`
		Code    int32  `json:"code"`
	}
	if json.Unmarshal(text, &read, asSent) != nil || read.Kind != "Status" {
		return nil, false
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: read.Code,
		Reason: metav1.StatusReason(shortened(read.Reason, failureText/4)), Message: shortened(read.Message, failureText/4),
	}, true
}

// decompressed is a body that was compressed with gzip.
type decompressed struct {
	io.ReadCloser
	text *gzip.Reader
	// silent is how much was read since there was text.
	silent int
}

// maxSilent is how much of a compressed body may come without any text. A compressed body can have parts without an end that stand for
// nothing.
const maxSilent = 64 << 10

func (d *decompressed) Read(into []byte) (int, error) {
	d.silent = 0
	if d.text == nil {
		text, err := gzip.NewReader(bufio.NewReader(&compressed{d}))
		if err != nil {
			return 0, err
		}
		d.text = text
	}
	return d.text.Read(into)
}

// compressed reads a body as it comes.
type compressed struct{ body *decompressed }

func (c *compressed) Read(into []byte) (int, error) {
	if c.body.silent > maxSilent {
		return 0, limited("object-size", "", "%d bytes of a compressed answer have no text", c.body.silent)
	}
	n, err := c.body.ReadCloser.Read(into)
	c.body.silent += n
	return n, err
}

// document reads a whole answer.
func (g *guard) document(path string, body io.Reader) ([]byte, error) {
	limit := g.DocumentSize.Value()
	text, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = limited("document-size", "member-max-document-size", "%s has more than %s", path, &g.DocumentSize)
	}
	return text, err
}
