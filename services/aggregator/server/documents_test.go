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
	"github.com/stretchr/testify/require"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	openapiv3aggregator "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
)

func TestDocumentsOfAggregatedServersAreBounded(t *testing.T) {
	const kind = `{"kind":"APIGroupDiscoveryList","items":[`
	for name, test := range map[string]struct {
		path, begin, repeated, end string
		times, code                int
	}{
		"small":         {"/apis", kind, "{},", "{}]}", 100, http.StatusOK},
		"parts":         {"/apis", kind, "{},", "{}]}", documentElements, http.StatusBadGateway},
		"deep":          {"/openapi/v2", `{"a":`, "[", "", 300, http.StatusBadGateway},
		"schemas":       {"/openapi/v2", `{"definitions":{`, `"a":{},`, `"a":{}}}`, schemaElements, http.StatusBadGateway},
		"index":         {"/openapi/v3", `{"paths":{`, `"a":{},`, `"a":{}}}`, indexValues, http.StatusBadGateway},
		"long":          {"/apis", `{"a":"`, strings.Repeat("x", 1<<20), `"}`, 17, http.StatusBadGateway},
		"protobuf":      {"/apis", "k8s\x00", "\x12\x00", "", 3, http.StatusBadGateway},
		"legacy":        {"/apis/example.com/v1", "k8s\x00", "\x1a\x00", "", 3, http.StatusBadGateway},
		"CBOR":          {"/apis", "\xd9\xd9\xf7", "\xa0", "", 3, http.StatusBadGateway},
		"YAML":          {"/apis", "kind: APIGroupDiscoveryList\nitems:\n", "- {}\n", "", 3, http.StatusBadGateway},
		"compressed":    {"/openapi/v2", "\x1f\x8b\x08", "\x00", "", 3, http.StatusBadGateway},
		"document":      {"/openapi/v3/apis/example.com/v1", "", "[,", "", documentValues, http.StatusOK},
		"long document": {"/openapi/v3/apis/example.com/v1", "", strings.Repeat("x", 1<<20), "", 17, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			written := 0
			server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;x=protobuf")
				w.Header().Set("ETag", `"one"`)
				io.WriteString(w, test.begin) //nolint:errcheck // the last one fails
				for range test.times {
					if _, err := w.Write([]byte(test.repeated)); err != nil {
						return
					}
					written++
				}
				io.WriteString(w, test.end) //nolint:errcheck // the size of the answer shows it
			})
			answer := httptest.NewRecorder()
			documentsOf(server, "v1.example.com").ServeHTTP(answer, httptest.NewRequest(http.MethodGet, test.path, nil))
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
}

// TestAnAnswerThatIsNoDocumentIsQuotedInPart: errors of kube-aggregator quote the whole.
func TestAnAnswerThatIsNoDocumentIsQuotedInPart(t *testing.T) {
	ask := func(server http.HandlerFunc) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		documentsOf(server, "v1.example.com").ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/apis/example.com/v1", nil))
		return answer
	}
	assert.Equal(t, http.StatusNotFound, ask(http.NotFound).Code)
	answer := ask(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		for range 20 {
			io.WriteString(w, strings.Repeat("x", 700)) //nolint:errcheck // the recorder takes it
		}
	})
	assert.Equal(t, http.StatusForbidden, answer.Code)
	assert.Equal(t, maxError, answer.Body.Len())
}

// TestNoAggregatedServerEndsTheAggregator has kube-aggregator take over documents that make its libraries panic, in goroutines of its own, and that name
// documents of others.
func TestNoAggregatedServerEndsTheAggregator(t *testing.T) {
	answers := map[string]string{
		"/openapi/v2": `{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{"/apis/example.com/v1/boats":{"get":{}}}}`,
	}
	server := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if answers[req.URL.Path] == "" {
			http.NotFound(w, req)
			return
		}
		io.WriteString(w, answers[req.URL.Path]) //nolint:errcheck // a recorder takes everything
	})
	services := mux.NewPathRecorderMux("openapi")
	specs, err := openapiv3aggregator.BuildAndRegisterAggregator(openapiv3aggregator.NewDownloader(), genericapiserver.NewEmptyDelegate(), nil, nil, services)
	require.NoError(t, err)
	liar := &apiregistrationv1.APIService{}
	liar.Name = "v1.example.com"
	specs.AddUpdateAPIService(documentsOf(server, liar.Name), liar)
	require.ErrorContains(t, specs.UpdateAPIServiceSpec(liar.Name), "502")

	liar.Name = "v1.other.example.com"
	specs.AddUpdateAPIService(documentsOf(server, liar.Name), liar)
	answers["/openapi/v3"] = `{"paths":{"apis/other.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/other.example.com/v1?hash=1"},` +
		`"apis/honest.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/honest.example.com/v1?hash=2"}}}`
	require.NoError(t, specs.UpdateAPIServiceSpec(liar.Name))
	answer := httptest.NewRecorder()
	services.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/openapi/v3", nil))
	assert.JSONEq(t, `{"paths":{"apis/other.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/other.example.com/v1?hash=1"}}}`, answer.Body.String())
}
