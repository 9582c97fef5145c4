// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheRequestArrivesAsItWasSent(t *testing.T) {
	type arrived struct{ Method, URI, Body, Agent, Forwarded string }
	seen := make(chan arrived, 1)
	server := front(t, jane, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		seen <- arrived{req.Method, req.RequestURI, string(body), req.UserAgent(), req.Header.Get("X-Forwarded-For")}
		w.Header().Set("Audit-Id", "1")
		w.WriteHeader(http.StatusTeapot)
	})
	const uri = "/api/v1/namespaces/a%2Fb/pods?labelSelector=a%3Db;c&watch"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL+uri, strings.NewReader("content"))
	require.NoError(t, err)
	req.Header.Set("User-Agent", "kubectl")
	req.Header.Set("X-Forwarded-For", "10.0.0.1")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	want := arrived{http.MethodPatch, uri, "content", "kubectl", "10.0.0.1"}
	assert.Empty(t, cmp.Diff(want, <-seen))
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("Audit-Id") != "" {
		t.Errorf("answer is %s with Audit-Id %q, which the aggregator sets itself", resp.Status, resp.Header.Get("Audit-Id"))
	}
}

func TestHeadersAreNotDroppedByTheClient(t *testing.T) {
	seen := make(chan http.Header, 1)
	server := front(t, jane, func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header })
	for _, path := range []string{forObjects, forOthers} {
		got := sendTo(t, server, path, http.Header{
			"Connection": {"Impersonate-User, Keep-Alive"}, "Impersonate-User": {"joe"}, "Keep-Alive": {"1"},
			"Forwarded": {"for=1.2.3.4"}, "X-Forwarded-Uri": {"/a"}, "Te": {"trailers, gzip"}, "Proxy-Connection": {"a"},
		}, seen)
		for name, want := range map[string]string{
			"Impersonate-User": "joe", "Keep-Alive": "", "Forwarded": "for=1.2.3.4", "X-Forwarded-Uri": "/a", "Te": "trailers", "Proxy-Connection": "",
		} {
			assert.Equal(t, want, got.Get(name), "%s: %s", path, name)
		}
	}
}
