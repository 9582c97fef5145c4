// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
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
