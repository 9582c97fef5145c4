// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var streamsRunning = metrics.NewGauge(&metrics.GaugeOpts{
	Name:           "tripod_search_streams",
	Help:           "Streams of this replica: it copies each of these resources of a cluster. Replicas share the streams.",
	StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(streamsRunning) }
