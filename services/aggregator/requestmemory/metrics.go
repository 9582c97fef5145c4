// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requestmemory

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Values of the label "what".
const (
	refusedRequest = "request"
	refusedAnswer  = "answer"
	endedWatch     = "watch"
	endedBlocked   = "blocked"
)

var (
	takenBytes = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "tripod_requests_memory_bytes",
		Help:           "Memory that requests in flight may take now.",
		StabilityLevel: metrics.ALPHA,
	})
	refusals = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "tripod_requests_memory_refused_total",
		Help: "Requests that were refused (request, answer) or ended (watch) because their user had too much memory, " +
			"or ended because their client took nothing for a minute (blocked).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"what"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(takenBytes, refusals)
})
