// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package savedsearches

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/component-base/metrics"

	"github.com/tripod-k8s/tripod/services/search/apis/saved/v1alpha1"
)

var (
	matchesDesc = metrics.NewDesc("tripod_search_saved_matches",
		"Objects that a SavedSearch finds, by the rights of its user. Each replica that serves has the same number, that of the status.",
		[]string{"name"}, nil, metrics.ALPHA, "")
	exceededDesc = metrics.NewDesc("tripod_search_saved_exceeded",
		"1 if a SavedSearch has had more matches than its threshold for as long as that says, or else 0.",
		[]string{"name"}, nil, metrics.ALPHA, "")
	failingDesc = metrics.NewDesc("tripod_search_saved_failing",
		"1 if the last count of a SavedSearch had no answer, or else 0. Its condition Evaluated says why. "+
			"The name * stands for all, if search cannot read them.",
		[]string{"name"}, nil, metrics.ALPHA, "")
)

// allNames stands for all searches. No object has that name.
const allNames = "*"

// Collector returns the metrics of the searches that are counted, at most [Most]. It asks no server.
func (s *Searches) Collector() metrics.StableCollector { return &collector{searches: s} }

type collector struct {
	metrics.BaseStableCollector

	searches *Searches
}

// DescribeWithStability implements metrics.StableCollector.
func (*collector) DescribeWithStability(descriptions chan<- *metrics.Desc) {
	descriptions <- matchesDesc
	descriptions <- exceededDesc
	descriptions <- failingDesc
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(collected chan<- metrics.Metric) {
	c.searches.mu.Lock()
	known, failure := c.searches.known, c.searches.failure
	c.searches.mu.Unlock()
	if failure != nil {
		collected <- metrics.NewLazyConstMetric(failingDesc, metrics.GaugeValue, 1, allNames)
	}
	for _, search := range known {
		status := &search.Status
		gauge := func(desc *metrics.Desc, value float64) {
			collected <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, value, search.Name)
		}
		if status.Matches != nil {
			gauge(matchesDesc, float64(*status.Matches))
		}
		if search.Spec.Threshold != nil {
			gauge(exceededDesc, asNumber(isExceeded(search.Spec.Threshold, status, c.searches.now())))
		}
		if status.LastEvaluation != nil {
			gauge(failingDesc, asNumber(!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.Evaluated)))
		}
	}
}

func asNumber(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
