// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	namespace = "tripod"
	subsystem = "identity"

	resultGood = "good"
	resultBad  = "bad"
)

var (
	requests = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "authenticate_duration_seconds",
		Help:    "Time to answer an aggregator's question about a token, by result: good or bad.",
		Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}, StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	watchers = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "watchers",
		Help: "Aggregators that follow this replica.", StabilityLevel: metrics.ALPHA,
	})
	stalled = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "stalled",
		Help: "1 while questions of aggregators wait because the etcd of this replica does not answer, else 0.", StabilityLevel: metrics.ALPHA,
	})
	reported = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "invalidations_total",
		Help: "Changes of objects that tokens depend on, reported to aggregators, by kind of object.", StabilityLevel: metrics.ALPHA,
	}, []string{"kind"})
	slowWatchers = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "slow_watchers_total",
		Help: "Streams that this replica ended because the aggregator read invalidations too slowly.", StabilityLevel: metrics.ALPHA,
	})
)

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(requests, watchers, stalled, reported, slowWatchers) })

func observe(result string, began time.Time) {
	requests.WithLabelValues(result).Observe(time.Since(began).Seconds())
}
