// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"math"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// scrapeTimeout is how long a scrape waits for the database.
const scrapeTimeout = 5 * time.Second

var (
	stalenessDesc = metrics.NewDesc("tripod_search_cluster_staleness_seconds",
		"Time since the database had all of the cluster, by the cluster's last report: the age of its oldest resource. +Inf until all first "+
			"lists are complete.",
		[]string{"cluster"}, nil, metrics.ALPHA, "")
	resourcesDesc = metrics.NewDesc("tripod_search_cluster_resources",
		"Resources of the cluster that are copied. The first list of the incomplete ones is not complete.",
		[]string{"cluster", "state"}, nil, metrics.ALPHA, "")
)

// statesCollector reports the states of the copies of all clusters, of any replica: the database has them.
type statesCollector struct {
	metrics.BaseStableCollector

	store *store.Store
}

func registerMetrics(s *store.Store) { legacyregistry.CustomMustRegister(&statesCollector{store: s}) }

// DescribeWithStability implements metrics.StableCollector.
func (*statesCollector) DescribeWithStability(descriptions chan<- *metrics.Desc) {
	descriptions <- stalenessDesc
	descriptions <- resourcesDesc
}

// CollectWithStability implements metrics.StableCollector. Each cluster has three series.
func (c *statesCollector) CollectWithStability(collected chan<- metrics.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	states, err := c.store.States(ctx)
	if err != nil {
		klog.V(2).InfoS("The states of clusters are not known", "err", err)
		return
	}
	for cluster, state := range states {
		gauge := func(desc *metrics.Desc, value float64, labels ...string) {
			collected <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, value, append([]string{cluster}, labels...)...)
		}
		staleness := math.Inf(1)
		if !state.SyncedAt.IsZero() {
			staleness = max(time.Since(state.SyncedAt), 0).Seconds()
		}
		gauge(stalenessDesc, staleness)
		gauge(resourcesDesc, float64(state.Resources-state.Incomplete), "complete")
		gauge(resourcesDesc, float64(state.Incomplete), "incomplete")
	}
}
