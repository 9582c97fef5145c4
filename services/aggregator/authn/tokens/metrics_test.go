// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("jane", "1"))
		c := newTestClient(t, time.Minute, core)
		registry := metrics.NewKubeRegistry()
		require.NoError(t, c.RegisterMetrics(registry.Register, registry.CustomRegister))
		expect(t, c, "jane")
		expect(t, c, "jane")
		core.invalidate("1")
		core.invalidate("2")
		expect(t, c, "jane")
		core.answer("other", is("joe", "2"))
		whoIs(t.Context(), c, "other")
		core.stop()
		expect(t, c, "jane")
		time.Sleep(2 * time.Second)

		const want = `
# HELP tripod_identity_client_cache_entries [ALPHA] Tokens in the cache.
# TYPE tripod_identity_client_cache_entries gauge
tripod_identity_client_cache_entries 2
# HELP tripod_identity_client_cache_invalidated_total [ALPHA] Answers that were dropped because something that they depend on changed.
# TYPE tripod_identity_client_cache_invalidated_total counter
tripod_identity_client_cache_invalidated_total 1
# HELP tripod_identity_client_cache_lookups_total [ALPHA] Requests with a token, by how it was found in the cache: hit, grace (no replica of core is followed), or miss.
# TYPE tripod_identity_client_cache_lookups_total counter
tripod_identity_client_cache_lookups_total{result="grace"} 1
tripod_identity_client_cache_lookups_total{result="hit"} 1
tripod_identity_client_cache_lookups_total{result="miss"} 3
# HELP tripod_identity_client_followed [ALPHA] 1 while a replica of core is followed, else 0.
# TYPE tripod_identity_client_followed gauge
tripod_identity_client_followed 0
# HELP tripod_identity_client_grace [ALPHA] 1 while no replica of core is followed and tokens in the cache are let in all the same, else 0.
# TYPE tripod_identity_client_grace gauge
tripod_identity_client_grace 1
# HELP tripod_identity_client_invalidations_total [ALPHA] Changes that core reported because answers about tokens may depend on them.
# TYPE tripod_identity_client_invalidations_total counter
tripod_identity_client_invalidations_total 2
# HELP tripod_identity_client_lag_seconds [ALPHA] Time since the last message of the replica of core that is followed, or was last. It sends one every second.
# TYPE tripod_identity_client_lag_seconds gauge
tripod_identity_client_lag_seconds 2
`
		assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want),
			"tripod_identity_client_cache_entries", "tripod_identity_client_cache_invalidated_total",
			"tripod_identity_client_cache_lookups_total", "tripod_identity_client_followed", "tripod_identity_client_grace",
			"tripod_identity_client_invalidations_total", "tripod_identity_client_lag_seconds"))
		questions, err := testutil.GetHistogramVecFromGatherer(registry, "tripod_identity_client_question_duration_seconds", map[string]string{"result": "good"})
		require.NoError(t, err)
		if got := questions.GetAggregatedSampleCount(); got != 3 {
			t.Errorf("%d questions are counted, want 3", got)
		}
	})
}
