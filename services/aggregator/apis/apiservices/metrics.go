// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"cmp"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-base/metrics"
)

// aggregatedOwner is the label of aggregated API servers. It is no name of a backend.
const aggregatedOwner = "(aggregated)"

var conflictsDesc = metrics.NewDesc("tripod_apiservice_conflicts",
	"APIServices of a backend that another backend claims, too. An aggregated API server is "+aggregatedOwner+".",
	[]string{"backend", "claimant"}, nil, metrics.ALPHA, "")

// RegisterMetrics registers the metrics of a registrar.
func (r *Registrar) RegisterMetrics(register func(metrics.StableCollector) error) error {
	return register(&conflictsCollector{registrar: r})
}

// conflictsCollector counts conflicts when it is asked.
type conflictsCollector struct {
	metrics.BaseStableCollector

	registrar *Registrar
}

// DescribeWithStability implements metrics.StableCollector.
func (*conflictsCollector) DescribeWithStability(descriptions chan<- *metrics.Desc) {
	descriptions <- conflictsDesc
}

// CollectWithStability implements metrics.StableCollector. There are as many series as pairs of backends at most.
func (c *conflictsCollector) CollectWithStability(collected chan<- metrics.Metric) {
	for pair, count := range c.registrar.conflicts() {
		collected <- metrics.NewLazyConstMetric(conflictsDesc, metrics.GaugeValue, float64(count), pair.owner, pair.claimant)
	}
}

// contenders are the backend that has an APIService, and one that claims it.
type contenders struct{ owner, claimant string }

// conflicts counts the APIServices that several backends claim.
func (r *Registrar) conflicts() map[contenders]int {
	services, _ := r.Services.Lister().List(labels.Everything()) // a lister reads memory and has no errors
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[contenders]int{}
	for _, service := range services {
		owner := r.backendOf(service)
		for _, claimant := range r.others(groupVersionOf(service), owner) {
			counts[contenders{cmp.Or(owner, aggregatedOwner), claimant}]++
		}
	}
	return counts
}
