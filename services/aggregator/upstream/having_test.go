// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

func TestRequestsForAGroupVersionThatSomeReplicasLackGoToThoseThatHaveIt(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	var lacks, has atomic.Int64
	var status atomic.Int64
	status.Store(http.StatusOK)
	older := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
		lacks.Add(1)
		w.WriteHeader(http.StatusNotFound)
	})
	newer := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
		has.Add(1)
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(int(status.Load()))
	})
	b := newBackend(t, pki, older, newer)
	b.find(older, ready)
	b.find(newer, ready)
	b.SetPartlyServed(map[schema.GroupVersion][]string{{Group: "example.com", Version: "v2"}: {newer}})
	send := func(path string, want int, olderGets bool) {
		t.Helper()
		lacks.Store(0)
		has.Store(0)
		for range 20 {
			req := newRequest(t, http.MethodGet, "")
			req.URL.Path = path
			resp, err := b.RoundTrip(classified(t, req, routing.Target{Owner: routing.Core}))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			if want != 0 {
				assert.Equal(t, want, resp.StatusCode, path)
			}
		}
		assert.Equal(t, olderGets, lacks.Load() > 0, "%s: the replica without the group-version got %d requests", path, lacks.Load())
	}
	of := []string{
		"/apis/example.com/v2", "/apis/example.com/v2/", "/apis/example.com/v2/foos", "/apis/example.com/v2/namespaces/a/foos/b",
		"/openapi/v3/apis/example.com/v2",
	}
	for _, path := range of {
		send(path, http.StatusOK, false)
	}
	for _, path := range []string{"/apis/example.com/v1", "/apis/example.com/v1/foos", "/api/v1/pods", "/version", "/apis", "/openapi/v3"} {
		send(path, 0, true)
	}
	status.Store(http.StatusTooManyRequests)
	send(of[0], http.StatusTooManyRequests, false) // no other replica has it
	status.Store(http.StatusOK)

	b.find(newer, unready)
	send(of[0], http.StatusOK, false) // its feed is right: a probe is later
	b.SetPartlyServed(nil)
	send(of[0], http.StatusNotFound, true)
}

func TestAGroupVersionWhoseReplicasAreAwayIsUnavailableAndNotMissing(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	older := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	const away = "127.0.0.1:1"
	b := newBackend(t, pki, older, away)
	b.find(older, ready)
	b.SetPartlyServed(map[schema.GroupVersion][]string{{Group: "example.com", Version: "v2"}: {away}})
	req := newRequest(t, http.MethodGet, "")
	req.URL.Path = "/apis/example.com/v2/foos"
	resp, err := b.RoundTrip(classified(t, req, routing.Target{Owner: routing.Core}))
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	var unreachable *UnreachableError
	require.ErrorAs(t, err, &unreachable)
}
