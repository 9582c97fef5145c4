// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/services/aggregator/clients"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
	"github.com/tripod-k8s/tripod/services/aggregator/quickmetrics"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// TestTheMetricsOfTheConsoleAreAnsweredQuickly asks for what the console asks for every second. Without one of them, answers are right, and
// cost five times as much.
func TestTheMetricsOfTheConsoleAreAnsweredQuickly(t *testing.T) {
	// These register their metrics when they are made.
	clients.New(0, nil)
	feeds.NewComparison(nil, nil)
	upstream.NewAggregated(upstream.Aggregated{Name: "v1.example.com"})
	slow := 0
	handler := quickmetrics.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { slow++ }))
	ask := func(names ...string) {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics?"+view.Parameters(names...).Encode(), nil))
	}
	wanted := slices.Concat(view.OfReplicas, view.OfProcess)
	require.NotEmpty(t, wanted)
	for _, name := range wanted {
		ask(name)
		assert.Zero(t, slow, "%s takes all metrics", name)
		slow = 0
	}
	ask("apiserver_request_total")
	assert.Equal(t, 1, slow, "others take all")
}
