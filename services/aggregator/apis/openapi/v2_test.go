// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// server is a backend that serves one document.
type server struct {
	document, etag string
	down           bool
	// full counts answers with a document in them.
	full int
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.down {
		return nil, errors.New("down")
	}
	w := httptest.NewRecorder()
	w.Header().Set("Etag", s.etag)
	if s.etag != "" && req.Header.Get("If-None-Match") == s.etag {
		w.WriteHeader(http.StatusNotModified)
		return w.Result(), nil
	}
	s.full++
	_, _ = io.WriteString(w, s.document) // a recorder takes everything
	return w.Result(), nil
}

// backend is a backend by its transport.
type backend struct{ http.RoundTripper }

func (b backend) Name() string                    { return "backend" }
func (b backend) AsAggregator() http.RoundTripper { return b }

// Serves implements Backend: no backend's documents are about another's group-versions but those of hidden.example.com.
func (b backend) Serves(gv schema.GroupVersion) bool { return gv.Group != "hidden.example.com" }

// Limited implements Backend.
func (b backend) Limited() bool { return false }

func backends(transports ...http.RoundTripper) []backend {
	var all []backend
	for _, transport := range transports {
		all = append(all, backend{transport})
	}
	return all
}

func get(t *testing.T, h http.Handler, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "/openapi/v2", nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestV2IsMergedOnDemandAndOnlyWhenSomethingChanged(t *testing.T) {
	core := &server{document: coreDocument, etag: `"c1"`}
	extensions := &server{document: extensionsDocument, etag: `"e1"`}
	v2 := NewV2(backends(core, extensions), http.NotFoundHandler())

	first := get(t, v2)
	second := get(t, v2)
	if core.full != 1 || extensions.full != 1 {
		t.Errorf("unchanged documents were transferred again: core %d, extensions %d", core.full, extensions.full)
	}
	if first.Header().Get("Etag") == "" || first.Header().Get("Etag") != second.Header().Get("Etag") {
		t.Errorf("etags %q and %q of the same document", first.Header().Get("Etag"), second.Header().Get("Etag"))
	}
	if w := get(t, v2, "If-None-Match", first.Header().Get("Etag")); w.Code != http.StatusNotModified {
		t.Errorf("a client with the current document gets %d", w.Code)
	}

	extensions.document, extensions.etag = strings.ReplaceAll(extensionsDocument, "Foo", "Bar"), `"e2"`
	third := get(t, v2)
	if third.Header().Get("Etag") == first.Header().Get("Etag") || !strings.Contains(third.Body.String(), `"Bar"`) {
		t.Errorf("a changed part does not show: %s", third.Body)
	}
}

func TestADocumentIsFetchedByARequestWithAClassOfItsOwn(t *testing.T) {
	var class *routing.Request
	part := handlerPart("local", pathV3, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { class = routing.Of(req) }), readIndex)
	client := httptest.NewRequest(http.MethodPost, "/openapi/v3/apis/example.com/v1", nil)
	client.Header.Set("Connection", "Upgrade")
	outer, err := routing.Classify(client, routing.Target{})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(outer.In(t.Context()), http.MethodGet, "/openapi/v3/apis/example.com/v1", nil)
	require.NoError(t, err)
	resp, err := part.fetch(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	if class.Upgrade || !class.Repeatable {
		t.Errorf("it has the class of the client's request: %+v", class)
	}
}

func TestV2KeepsTheLastKnownGoodWhileAServerIsAway(t *testing.T) {
	core := &server{document: coreDocument, etag: `"c1"`}
	extensions := &server{document: extensionsDocument, etag: `"e1"`}
	v2 := NewV2(backends(core, extensions), http.NotFoundHandler())
	before := get(t, v2).Body.String()

	core.down, extensions.down = true, true
	if after := get(t, v2); after.Code != http.StatusOK || after.Body.String() != before {
		t.Errorf("with both backends down: %d %s", after.Code, after.Body)
	}
}

func TestV2IsUnavailableBeforeCoreWasHeard(t *testing.T) {
	v2 := NewV2(backends(&server{down: true}, &server{document: extensionsDocument, etag: `"e1"`}), http.NotFoundHandler())
	if w := get(t, v2); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}

func TestV2NegotiatesMediaTypeAndCompression(t *testing.T) {
	v2 := NewV2(backends(&server{document: coreDocument, etag: `"c1"`}, &server{document: extensionsDocument, etag: `"e1"`}), http.NotFoundHandler())
	for accept, want := range map[string]int{
		"":                                  http.StatusOK,
		"*/*":                               http.StatusOK,
		"application/json":                  http.StatusOK,
		"text/html, application/json;q=0.5": http.StatusOK,
		"text/html":                         http.StatusNotAcceptable,
	} {
		if w := get(t, v2, "Accept", accept); w.Code != want {
			t.Errorf("Accept %q gets %d, want %d", accept, w.Code, want)
		}
	}
	w := get(t, v2, "Accept-Encoding", "gzip")
	if w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("headers: %v", w.Header())
	}
	r, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	if body, err := io.ReadAll(r); err != nil || string(body) != get(t, v2).Body.String() {
		t.Errorf("compressed and plain bodies differ (%v)", err)
	}
}

func TestV3IndexIsMergedAndOthersDocumentsAreTheirs(t *testing.T) {
	index := func(paths ...string) string {
		return `{"paths":{` + strings.Join(paths, ",") + `}}`
	}
	local := http.NewServeMux()
	local.HandleFunc("/openapi/v3", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, index(`"apis/wardle/v1":{"serverRelativeURL":"w"}`)) // a recorder takes everything
	})
	local.HandleFunc("/openapi/v3/apis/wardle/v1", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	v3 := NewV3(backends(
		&server{document: index(`"version":{"serverRelativeURL":"core"}`)},
		&server{document: index(`"version":{"serverRelativeURL":"other"}`, `"apis/example.com/v1":{"serverRelativeURL":"e"}`,
			`"apis/hidden.example.com/v1":{"serverRelativeURL":"h"}`)},
	), local)

	w := httptest.NewRecorder()
	v3.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi/v3", nil))
	want := index(`"apis/example.com/v1":{"serverRelativeURL":"e"}`, `"apis/wardle/v1":{"serverRelativeURL":"w"}`, `"version":{"serverRelativeURL":"core"}`)
	if w.Body.String() != want {
		t.Errorf("index is %s, want %s", w.Body, want)
	}
	for path, want := range map[string]int{
		"/openapi/v3/apis/wardle/v1":             http.StatusTeapot,
		"/openapi/v3/version":                    http.StatusOK,
		"/openapi/v3/apis/unknown/v1":            http.StatusNotFound,
		"/openapi/v3/apis/hidden.example.com/v1": http.StatusNotFound,
		"/openapi/v3/":                           http.StatusNotFound,
	} {
		w = httptest.NewRecorder()
		v3.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s answers %d, want %d", path, w.Code, want)
		}
	}
}
