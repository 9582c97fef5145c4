// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
)

// endless is a document of blanks without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestExtensionsThatLiesHidesNobody has extensions send what is no document, and documents of all sizes.
func TestExtensionsThatLiesHidesNobody(t *testing.T) {
	blanks := func(n int64) io.Reader { return io.LimitReader(endless{}, n) }
	lies := map[string]struct {
		document func() io.Reader
		// shown is whether clients see it in v2, and indexed whether they do in v3.
		shown, indexed bool
	}{
		"nothing":             {func() io.Reader { return strings.NewReader("") }, false, false},
		"no JSON":             {func() io.Reader { return strings.NewReader(`{"paths":{"b":`) }, false, false},
		"no object":           {func() io.Reader { return strings.NewReader(`["b"]`) }, false, false},
		"an entry of no form": {func() io.Reader { return strings.NewReader(`{"paths":["b"]}`) }, false, false},
		"without an end":      {func() io.Reader { return endless{} }, false, false},
		"a byte too large":    {func() io.Reader { return io.MultiReader(strings.NewReader(`{"paths":{"b":{}}}`), blanks(maxDocument)) }, false, false},
		"as large as it may be": {func() io.Reader {
			const begin, end = `{"paths":{"b":{"x":"`, `"}}}`
			return io.MultiReader(strings.NewReader(begin), blanks(maxDocument-int64(len(begin+end))), strings.NewReader(end))
		}, true, false},
		"an index as large as it may be": {func() io.Reader {
			const document = `{"paths":{"b":{}}}`
			return io.MultiReader(strings.NewReader(document), blanks(maxIndex-int64(len(document))))
		}, true, true},
		"an index of many names": {func() io.Reader {
			return strings.NewReader(`{"paths":{"b":0` + strings.Repeat(`,"c":0`, 5*maxLocations) + `}}`)
		}, true, false},
		"a document of many names": {func() io.Reader {
			return strings.NewReader(`{"paths":{"b":0` + strings.Repeat(`,"c":0`, 500_000) + `}}`)
		}, false, false},
		"a path of many names": {func() io.Reader {
			return strings.NewReader(`{"paths":{"b":{"c":0` + strings.Repeat(`,"c":0`, 500_000) + `}}}`)
		}, false, false},
		"a definition of many parts": {func() io.Reader {
			return strings.NewReader(`{"paths":{"b":0},"definitions":{"c":{"d":[0` + strings.Repeat(`,0`, 600_000) + `]}}}`)
		}, true, false},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			core := &server{document: `{"swagger":"2.0","paths":{"a":{}}}`, etag: `"1"`}
			extensions := roundtrip.Func(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(lie.document())}, nil
			})
			for path, handler := range map[string]http.Handler{
				pathV2: NewV2(backends(core, extensions), http.NotFoundHandler()), pathV3: NewV3(backends(core, extensions), http.NotFoundHandler()),
			} {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				assert.Equal(t, http.StatusOK, w.Code, path)
				body := w.Body.String()
				assert.True(t, strings.Contains(body, `"a":{}`), "%s does not have what core sent", path)
				shown := map[string]bool{pathV2: lie.shown, pathV3: lie.indexed}[path]
				assert.Equal(t, shown, strings.Contains(body, `"b":`), "%s has what extensions sent", path)
			}
		})
	}
}

func TestAnIndexIsDecodedOncePerVersion(t *testing.T) {
	extensions := &server{document: `{"paths":{"apis/example.com/v1":{}}}`, etag: ""}
	v3 := NewV3(backends(&server{document: `{"paths":{}}`}, extensions), http.NotFoundHandler())
	ask := func() *version {
		w := httptest.NewRecorder()
		v3.ServeHTTP(w, httptest.NewRequest(http.MethodGet, pathV3, nil))
		assert.Contains(t, w.Body.String(), "apis/example.com/")
		return v3.parts[1].last.Load()
	}
	first := ask()
	assert.Same(t, first, ask())
	extensions.document = `{"paths":{"apis/example.com/v2":{}}}`
	changed := ask()
	assert.Contains(t, changed.index, "apis/example.com/v2")
	extensions.document = `{"paths":["no index"]}`
	assert.Same(t, changed, ask())
}

func TestAProtobufDocumentHasFewEntries(t *testing.T) {
	of := func(entries int) io.Reader {
		var paths []byte
		for range entries {
			paths = appendBytes(paths, entryFields[pathsField], nil)
		}
		return bytes.NewReader(appendBytes(nil, pathsField, paths))
	}
	_, err := readProtobuf(of(maxEntries), nil)
	require.NoError(t, err)
	_, err = readProtobuf(of(maxEntries+1), nil)
	assert.ErrorContains(t, err, "more than 100000 entries")
	_, err = readProtobuf(strings.NewReader("no document"), nil)
	assert.Error(t, err)
}
