// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
)

// tooManyClusters is the reason of policies with sources of which no PediaCluster is made.
const tooManyClusters = "TooManyPediaClusters"

var refusedSources = metrics.NewGauge(&metrics.GaugeOpts{
	Name: "tripod_search_import_sources_refused",
	Help: "Sources of ClusterImportPolicies of which no PediaCluster is made, because there are --import-max-clusters of their namespace. " +
		"The log and the condition Reconciling say of which policies.",
	StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(refusedSources) }

// partyOf returns the party of the PediaClusters that a policy makes of the sources in a namespace: users who may create sources there have
// made them. Sources without a namespace are of one party, too.
func partyOf(policy *v1alpha1.ClusterImportPolicy, namespace string) string {
	return policy.Name + "/" + namespace
}

// count tells of sources of which no PediaCluster is made.
func (p *Policies) count(s *state) {
	all := 0
	for _, policy := range s.policies {
		now := s.refused[policy.UID]
		if all += now; now > 0 && p.refused[policy.UID] == 0 {
			klog.InfoS("A policy has more sources in a namespace than search makes PediaClusters of", "policy", policy.Name, "most", p.most,
				"more", now)
		}
	}
	p.refused = s.refused
	refusedSources.Set(float64(all))
}
