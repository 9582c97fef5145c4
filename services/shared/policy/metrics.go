// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// reached is how far the policy of this process has come.
var reached = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Name:           "tripod_policy_resource_version",
	Help:           "The resourceVersion up to which the RBAC objects of core are in force, by resource.",
	StabilityLevel: metrics.ALPHA,
}, []string{"resource"})

func init() {
	legacyregistry.MustRegister(reached)
}
