// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"
)

// TestABlackholeEndsWhatWaits has patient clients wait for a service that has one replica, whose network swallows all packets. No client waits for ever: the
// kernel calls the connections lost. It logs the times that docs/operate.md states.
func TestABlackholeEndsWhatWaits(t *testing.T) {
	if os.Getenv("BLACKHOLE") == "" {
		t.Skip("BLACKHOLE=1 runs it; it needs root")
	}
	c, err := startCluster(t.Context(), sideOf(singleTripod))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.close(t.Failed())) })
	if c.machine.noNetwork != "" {
		t.Skip(c.machine.noNetwork)
	}
	config := rest.CopyConfig(c.admin())
	config.Timeout = 0
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	send := func(method, path, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		return client.Do(req)
	}
	const configMaps = "/api/v1/namespaces/" + namespace + "/configmaps"
	watch, err := send(http.MethodGet, configMaps+"?watch=1", "")
	require.NoError(t, err)
	defer watch.Body.Close()

	all := overloads()
	cut := all[slices.IndexFunc(all, func(f fault) bool { return f.needs == network })]
	require.NoError(t, cut.begin(ctx, c))
	began := time.Now()
	var waiting sync.WaitGroup
	took := func(what string) { t.Logf("%s ended after %.1f s", what, time.Since(began).Seconds()) }
	ended := make(chan struct{})
	waiting.Go(func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, watch.Body) // however it ends
		took("a watch")
	})
	answered := func(name, method, body string, want ...int) {
		resp, err := send(method, configMaps, body)
		if !assert.NoError(t, err, name) {
			return
		}
		_ = resp.Body.Close() // only the status counts
		took(fmt.Sprintf("%s: %d", name, resp.StatusCode))
		assert.Contains(t, want, resp.StatusCode, name)
	}
	waiting.Go(func() { answered("a read", http.MethodGet, "", http.StatusServiceUnavailable) })
	waiting.Go(func() {
		answered("a write", http.MethodPost, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"lost"}}`, http.StatusServiceUnavailable, http.StatusBadGateway)
	})
	<-ended
	waiting.Wait()
	began = time.Now()
	answered("a new read", http.MethodGet, "", http.StatusServiceUnavailable)

	require.NoError(t, cut.end(ctx, c))
	began = time.Now()
	require.Eventually(t, func() bool {
		resp, err := send(http.MethodGet, configMaps, "")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, time.Minute, 100*time.Millisecond, "the API is back")
	took("the outage")
}
