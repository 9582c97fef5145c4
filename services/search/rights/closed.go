// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var closedRights = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Name: "tripod_search_rights_closed",
	Help: "Clusters and namespaces whose RBAC shows nothing to any reader now, because it is too large, cannot be read, or is not copied " +
		"yet, by scope: cluster or namespace. The log and the PediaClusters say which.",
	StabilityLevel: metrics.ALPHA,
}, []string{"scope"})

func init() { legacyregistry.MustRegister(closedRights) }

// countClosed counts what is closed in all clusters.
func (r *Rights) countClosed() {
	clusters, namespaces := 0, 0
	for _, m := range r.all() {
		state := m.state.Load()
		switch {
		case state == nil:
		case state.unknown != "":
			clusters++
		default:
			namespaces += len(state.closed)
		}
	}
	closedRights.WithLabelValues("cluster").Set(float64(clusters))
	closedRights.WithLabelValues("namespace").Set(float64(namespaces))
}

// TooLarge says which namespaces of a cluster, or that all of it, show nothing to any reader because their RBAC objects take too much
// memory, as far as this process has read them. It is empty if there are none.
func (r *Rights) TooLarge(cluster string) string {
	r.mu.Lock()
	m := r.members[cluster]
	r.mu.Unlock()
	if m == nil {
		return ""
	}
	state := m.state.Load()
	if state == nil {
		return ""
	}
	if why := state.tooLarge[clusterWide]; why != "" {
		return why
	}
	const most = 10
	var all []string
	for _, namespace := range slices.Sorted(maps.Keys(state.tooLarge)) {
		if len(all) == most {
			all = append(all, fmt.Sprintf("and %d more", len(state.tooLarge)-most))
			break
		}
		all = append(all, "namespace "+namespace+": "+state.tooLarge[namespace])
	}
	return strings.Join(all, "; ")
}
