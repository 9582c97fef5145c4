// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
		// shown is whether clients see it.
		shown bool
	}{
		"nothing":             {func() io.Reader { return strings.NewReader("") }, false},
		"no JSON":             {func() io.Reader { return strings.NewReader(`{"paths":{"b":`) }, false},
		"no object":           {func() io.Reader { return strings.NewReader(`["b"]`) }, false},
		"an entry of no form": {func() io.Reader { return strings.NewReader(`{"paths":["b"]}`) }, false},
		"without an end":      {func() io.Reader { return endless{} }, false},
		"a byte too large":    {func() io.Reader { return io.MultiReader(strings.NewReader(`{"paths":{"b":{}}}`), blanks(maxDocument)) }, false},
		"as large as it may be": {func() io.Reader {
			const begin, end = `{"paths":{"b":{"x":"`, `"}}}`
			return io.MultiReader(strings.NewReader(begin), blanks(maxDocument-int64(len(begin+end))), strings.NewReader(end))
		}, true},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			core := &server{document: `{"swagger":"2.0","paths":{"a":{}}}`, etag: `"1"`}
			extensions := roundTripper(func(*http.Request) (*http.Response, error) {
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
				assert.Equal(t, lie.shown, strings.Contains(body, `"b":`), "%s has what extensions sent", path)
			}
		})
	}
}
