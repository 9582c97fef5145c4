// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestADocumentIsKeptForEverByItsHashAndFoundByAnOldOne(t *testing.T) {
	document := `{"paths":{"apis/example.com/v1":{"serverRelativeURL":"e"}}}` // an index, too, so that the document exists
	for name, tc := range map[string]struct {
		query, ifNoneMatch, etag     string
		code                         int
		location, cacheControl, body string
	}{
		"no hash":      {etag: `"NOW"`, code: http.StatusOK, cacheControl: "no-cache, private", body: document},
		"its hash":     {query: "?hash=NOW", etag: `"NOW"`, code: http.StatusOK, cacheControl: "public, immutable", body: document},
		"an old hash":  {query: "?hash=OLD", etag: `"NOW"`, code: http.StatusMovedPermanently, location: "?hash=NOW", cacheControl: "no-cache, private"},
		"not modified": {query: "?hash=NOW", ifNoneMatch: `"NOW"`, etag: `"NOW"`, code: http.StatusNotModified, cacheControl: "public, immutable"},
		"old, not modified": {
			query: "?hash=OLD", ifNoneMatch: `"NOW"`, etag: `"NOW"`, code: http.StatusMovedPermanently, location: "?hash=NOW", cacheControl: "no-cache, private",
		},
		"a server without hashes": {query: "?hash=OLD", etag: "", code: http.StatusOK, cacheControl: "no-cache, private", body: document},
		"a hash that is a URL": {
			query: "?hash=OLD", etag: `"//evil.invalid/&x=\\y"`, code: http.StatusMovedPermanently, location: "?hash=%2F%2Fevil.invalid%2F%26x%3D%5Cy",
			cacheControl: "no-cache, private",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v3 := NewV3(backends(&server{document: document, etag: tc.etag}), http.NotFoundHandler())
			w := httptest.NewRecorder()
			w.Header().Set("Cache-Control", "no-cache, private") // as the handlers before this one
			req := httptest.NewRequest(http.MethodGet, "/openapi/v3/apis/example.com/v1"+tc.query, nil)
			if tc.ifNoneMatch != "" {
				req.Header.Set("If-None-Match", tc.ifNoneMatch)
			}
			v3.ServeHTTP(w, req)
			assert.Equal(t, tc.code, w.Code)
			assert.Equal(t, tc.body, w.Body.String())
			assert.Equal(t, []string{tc.cacheControl}, w.Header().Values("Cache-Control"))
			assert.Equal(t, tc.cacheControl == "public, immutable", w.Header().Get("Expires") != "", "Expires")
			if tc.location != "" {
				tc.location = "/openapi/v3/apis/example.com/v1" + tc.location
			}
			assert.Equal(t, tc.location, w.Header().Get("Location"))
		})
	}
}
