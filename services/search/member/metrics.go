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

var limitsHit = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "tripod_search_member_limits_total",
	Help:           "How often a cluster has sent or had more than search takes, by limit. The PediaCluster says which cluster and resource.",
	StabilityLevel: metrics.ALPHA,
}, []string{"limit"})

var objectsRefused = metrics.NewCounter(&metrics.CounterOpts{
	Name:           "tripod_search_objects_refused_total",
	Help:           "Objects that were not stored because they are not what Kubernetes' API allows, or because the database refuses them.",
	StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(streamsRunning, limitsHit, objectsRefused) }
