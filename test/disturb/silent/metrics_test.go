// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package silent

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// TestOwnAnswersAreCounted is about answers that no backend gave, and so none counts.
func TestOwnAnswersAreCounted(t *testing.T) {
	client := traffic.NewClient(t, fleet.Admin(), 2)
	send := func(method, path string, want int) {
		t.Helper()
		answer, err := client.Send(t.Context(), method, path, nil)
		require.NoError(t, err)
		require.NoError(t, answer.Expect(want))
	}
	counted := func(replica string, labels ...string) int {
		t.Helper()
		n, err := fleet.Metric(t.Context(), replica, "apiserver_request_total", labels...)
		require.NoError(t, err)
		return int(n)
	}
	const all, one = "/apis/example.com/v1/boats", "/apis/example.com/v1/namespaces/default/boats/a"
	labels := []string{"group=example.com", "version=v1", "resource=boats"}

	send(http.MethodGet, one, http.StatusNotFound)
	require.Zero(t, counted("aggregator-0", append(labels, "component=aggregator")...), "the answer of a backend is not the aggregator's own")

	extensions := fleet.Replica("extensions-0")
	require.NoError(t, extensions.Kill())
	t.Cleanup(func() { restart(t, extensions) })
	for range 3 {
		send(http.MethodGet, all, http.StatusServiceUnavailable)
		send(http.MethodGet, one, http.StatusServiceUnavailable)
		send(http.MethodGet, all+"?watch=1", http.StatusServiceUnavailable)
		send(http.MethodDelete, one, http.StatusServiceUnavailable)
	}
	for verb, scope := range map[string]string{"LIST": "cluster", "GET": "resource", "WATCH": "cluster", "DELETE": "resource"} {
		n := counted("aggregator-0", append(labels, "verb="+verb, "scope="+scope, "subresource=", "component=aggregator", "code=503")...)
		if n != 3 {
			t.Errorf("%d of 3 %s are counted", n, verb)
		}
	}

	for i := range 20 {
		send("VERB"+fmt.Sprint(i), fmt.Sprintf("/apis/made-up-%d.example.com/v1/made-up-%d?dryRun=made-up-%d", i, i, i), http.StatusServiceUnavailable)
		send(http.MethodGet, fmt.Sprintf("/apis/example.com/v1/made-up-%d", i), http.StatusServiceUnavailable)
		send(http.MethodGet, fmt.Sprintf("%s/made-up-%d", one, i), http.StatusServiceUnavailable)
	}
	answer, err := client.Send(t.Context(), http.MethodGet, "/metrics", nil)
	require.NoError(t, err)
	for line := range strings.Lines(string(answer.Body)) {
		if strings.Contains(line, "made-up") || strings.Contains(line, "VERB") {
			t.Errorf("a client can name series: %s", line)
		}
	}
}

func restart(t *testing.T, replica *framework.Replica) {
	t.Helper()
	require.NoError(t, replica.Start())
	require.NoError(t, replica.WaitReady(context.WithoutCancel(t.Context())))
}
