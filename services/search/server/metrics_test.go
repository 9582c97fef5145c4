// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

func TestMetricsTellHowFarEachClusterIs(t *testing.T) {
	s := newStore(t)
	known, err := s.Kinds(t.Context(), "west")
	require.NoError(t, err)
	_, err = s.OpenStream(t.Context(), "east", known[0])
	require.NoError(t, err)
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(&statesCollector{store: s})
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP tripod_search_cluster_resources [ALPHA] Resources of the cluster that are copied. The first list of the incomplete ones is not complete.
		# TYPE tripod_search_cluster_resources gauge
		tripod_search_cluster_resources{cluster="east",state="complete"} 1
		tripod_search_cluster_resources{cluster="east",state="incomplete"} 1
		tripod_search_cluster_resources{cluster="west",state="complete"} 3
		tripod_search_cluster_resources{cluster="west",state="incomplete"} 0
	`), "tripod_search_cluster_resources"))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 2)
	staleness := families[1].GetMetric()
	require.Len(t, staleness, 2)
	assert.True(t, math.IsInf(staleness[0].GetGauge().GetValue(), 1), "a resource of east was never listed completely")
	assert.Less(t, staleness[1].GetGauge().GetValue(), 600.0)
	require.NoError(t, s.Close())
	families, err = registry.Gather()
	assert.NoError(t, err, "a scrape has the other metrics")
	assert.Empty(t, families)
}
