// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestAFailureThatClientGoRepeatsIsRecorded(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Content-Type", "application/json")
		if calls == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "b"}}`))
	}))
	t.Cleanup(server.Close)
	c := &Clients{config: &rest.Config{Host: server.URL}}
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &attempts{next: next, failed: c.fail} })
	client, err := dynamic.NewForConfig(c.config)
	require.NoError(t, err)
	get := func(ctx context.Context) error {
		_, err := client.Resource(configMaps).Namespace("b").Get(ctx, "a", metav1.GetOptions{})
		return err
	}
	require.NoError(t, get(t.Context()), "client-go repeats it")
	require.Len(t, c.Failures(), 1)
	assert.True(t, strings.HasSuffix(c.Failures()[0], " GET /api/v1/namespaces/b/configmaps/a: 503 Service Unavailable"), c.Failures()[0])

	require.NoError(t, get(t.Context()))
	assert.Len(t, c.Failures(), 1, "an answer is no failure")
	server.Close()
	require.Error(t, get(t.Context()))
	assert.Greater(t, len(c.Failures()), 1, "a connection that is refused is one")
}

func TestAFailureHasTheMessageOfItsStatus(t *testing.T) {
	const message = "etcdserver: request timed out, possibly due to previous leader failure"
	large := strings.Repeat("x", 2*maxReason)
	status, err := runtime.Encode(scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), &metav1.Status{
		Status: metav1.StatusFailure, Message: message, Code: http.StatusInternalServerError,
	})
	require.NoError(t, err)
	for name, test := range map[string]struct{ body, want string }{
		"a Status":      {string(status), "500 Internal Server Error: " + message},
		"no Status":     {"http: the backend is away\n", "500 Internal Server Error"},
		"a long answer": {large, "500 Internal Server Error"},
		"nothing":       {"", "500 Internal Server Error"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = w.Write([]byte(test.body))
			}))
			t.Cleanup(server.Close)
			var failures []string
			a := &attempts{next: http.DefaultTransport, failed: func(of string, err error) { failures = append(failures, of+": "+err.Error()) }}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api", nil)
			require.NoError(t, err)
			answer, err := a.RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			assert.Equal(t, test.body, string(body), "the client reads all of it")
			assert.Equal(t, []string{"POST /api: " + test.want}, failures)
		})
	}
}
