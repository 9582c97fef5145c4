// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDocumentsOfAggregatedServersAreBounded(t *testing.T) {
	const kind = `{"kind":"APIGroupDiscoveryList","items":[`
	for name, test := range map[string]struct {
		contentType, begin, repeated, end string
		times, code                       int
	}{
		"small":         {"application/json", kind, "{},", "{}]}", 100, http.StatusOK},
		"parts":         {"application/json", kind, "{},", "{}]}", documentElements, http.StatusBadGateway},
		"parts, untold": {"", kind, "{},", "{}]}", documentElements, http.StatusBadGateway},
		"deep":          {"application/json", "", "[", "", 300, http.StatusBadGateway},
		"long":          {"application/json", `"`, strings.Repeat("x", 1<<20), `"`, 17, http.StatusBadGateway},
		"protobuf":      {"application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "", "[,", "", documentValues, http.StatusOK},
		"long protobuf": {"application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "", strings.Repeat("x", 1<<20), "", 17, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			written := 0
			server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				w.Header().Set("ETag", `"one"`)
				io.WriteString(w, test.begin) //nolint:errcheck // the last one fails
				for range test.times {
					if _, err := w.Write([]byte(test.repeated)); err != nil {
						return
					}
					written++
				}
				io.WriteString(w, test.end) //nolint:errcheck // the size of the answer tells
			})
			answer := httptest.NewRecorder()
			documentsOf(server, "v1.example.com").ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/apis", nil))
			assert.Equal(t, test.code, answer.Code)
			if test.code == http.StatusOK {
				assert.Equal(t, test.begin+strings.Repeat(test.repeated, test.times)+test.end, answer.Body.String())
				assert.Equal(t, `"one"`, answer.Header().Get("ETag"))
				return
			}
			assert.Less(t, answer.Body.Len(), 100)
			assert.Less(t, written, test.times, "no more is read")
		})
	}
	answer := httptest.NewRecorder()
	documentsOf(http.NotFoundHandler(), "v1.example.com").ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/apis", nil))
	assert.Equal(t, http.StatusNotFound, answer.Code)
}
