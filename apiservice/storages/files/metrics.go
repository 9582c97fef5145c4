// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// refused counts files that are no objects.
var refused = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Name:           "tripod_storage_refused_files",
	Help:           "Files that are refused, because they are no valid objects. The log says why.",
	StabilityLevel: metrics.ALPHA,
}, []string{"resource"})

func init() { legacyregistry.MustRegister(refused) }
