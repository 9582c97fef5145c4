// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"
)

func TestTheAggregatorAsksItself(t *testing.T) {
	self := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/apis/busy/v1" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, req.URL.Path+" "+req.Header.Get("Authorization"))
	}))
	defer self.Close()
	knows := false
	config, err := Whole(&rest.Config{Host: self.URL, BearerToken: "secret"}, func() bool { return knows })
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	for _, test := range []struct {
		name, url string
		knows     bool
		code      int
		body      string
	}{
		{"groups before they are known", self.URL + "/apis", false, http.StatusServiceUnavailable, ""},
		{"groups", self.URL + "/apis", true, http.StatusOK, "/apis Bearer secret"},
		{"OpenAPI documents before groups are known", self.URL + "/openapi/v3", false, http.StatusOK, "/openapi/v3 Bearer secret"},
		{"parameters before groups are known", self.URL + "/apis/example.com/v1/widgets", false, http.StatusOK, "/apis/example.com/v1/widgets Bearer secret"},
		{"a webhook at the kubernetes Service", "https://kubernetes.default.svc:443/apis/hooks/v1/a", true, http.StatusOK, "/apis/hooks/v1/a Bearer secret"},
		{"one that is busy is not asked again", self.URL + "/apis/busy/v1", true, http.StatusTooManyRequests, "/apis/busy/v1 Bearer secret"},
	} {
		t.Run(test.name, func(t *testing.T) {
			knows = test.knows
			response, err := client.Get(test.url)
			require.NoError(t, err)
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			if response.StatusCode != test.code || (test.body != "" && string(body) != test.body) {
				t.Errorf("answer is %d %s", response.StatusCode, body)
			}
			assert.Empty(t, response.Header.Get("Retry-After"), "clients get Retry-After")
		})
	}
}
