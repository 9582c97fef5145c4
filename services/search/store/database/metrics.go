// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Values of the label "operation".
const (
	reads  = "read"
	writes = "write"
)

var durations = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Name:           "tripod_search_database_duration_seconds",
	Help:           "Time that transactions take that read or write objects of clusters, with the wait for a connection.",
	Buckets:        []float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
	StabilityLevel: metrics.ALPHA,
}, []string{"operation"})

func init() { legacyregistry.MustRegister(durations) }

// measure records what a transaction took when the result is called.
func measure(operation string) (done func()) {
	began := time.Now()
	return func() { durations.WithLabelValues(operation).Observe(time.Since(began).Seconds()) }
}
