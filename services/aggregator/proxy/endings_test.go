// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
)

func TestWritesIntoANamespaceThatEndsSayThatItDoes(t *testing.T) {
	received := make(chan bool, 1)
	status := http.StatusOK
	front := front(t, jane, func(w http.ResponseWriter, req *http.Request) {
		e, err := envelope.Decode(req.Header.Get(envelope.Header))
		assert.NoError(t, err)
		received <- e.GetNamespaceEnds()
		w.WriteHeader(status)
	})
	send := func(method, path string) bool {
		req, err := http.NewRequestWithContext(t.Context(), method, front.URL+path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		return <-received
	}
	const inside = "/apis/example.com/v1/namespaces/ends/boats"
	assert.False(t, send(http.MethodPost, inside), "before the deletion")
	status = http.StatusForbidden
	send(http.MethodDelete, "/api/v1/namespaces/ends")
	assert.False(t, send(http.MethodPost, inside), "after a deletion that was refused")
	status = http.StatusOK
	send(http.MethodDelete, "/api/v1/namespaces/ends/configmaps/ends")
	send(http.MethodDelete, "/apis/example.com/v1/namespaces/ends")
	assert.False(t, send(http.MethodPost, inside), "after deletions of something else")
	send(http.MethodDelete, "/api/v1/namespaces/ends")
	for _, tc := range []struct {
		method, path string
		want         bool
	}{
		{http.MethodPost, inside, true},
		{http.MethodPut, inside + "/a", true},
		{http.MethodPatch, inside + "/a", true},
		{http.MethodPost, "/api/v1/namespaces/ends/configmaps", true},
		{http.MethodGet, inside, false},
		{http.MethodDelete, inside + "/a", false},
		{http.MethodPost, "/apis/example.com/v1/namespaces/other/boats", false},
		{http.MethodPost, "/apis/example.com/v1/boats", false},
		{http.MethodPut, "/api/v1/namespaces/ends", false},
	} {
		assert.Equal(t, tc.want, send(tc.method, tc.path), "%s %s", tc.method, tc.path)
	}
}
