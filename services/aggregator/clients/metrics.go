// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tripod-k8s/tripod/services/aggregator/quickmetrics"
)

// Why a connection was closed.
const (
	closedUnused  = "unused"
	closedRefused = "refused"
)

var (
	openConnections = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "tripod_client_connections",
		Help:           "Connections of clients that are open.",
		StabilityLevel: metrics.ALPHA,
	})
	takenBytes = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "tripod_client_connections_memory_bytes",
		Help:           "Memory that connections of clients may take now, without the requests on them.",
		StabilityLevel: metrics.ALPHA,
	})
	closedConnections = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "tripod_client_connections_closed_total",
		Help: "Connections of clients that were closed for others because they were not in use (unused), " +
			"or refused because all others were in use (refused).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"why"})
)

var registerMetrics = sync.OnceFunc(func() {
	quickmetrics.MustRegister(openConnections)
	legacyregistry.MustRegister(takenBytes, closedConnections)
})
