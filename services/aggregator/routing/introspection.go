// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"net/url"
	"strings"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

const (
	// serviceParameter says which service a request is about that asks a server about itself, and replicaParameter which
	// replica of that service: its address, host:port.
	serviceParameter = "service"
	replicaParameter = "replica"

	// aggregatorService is what the aggregator is called there.
	aggregatorService = "aggregator"
)

// introspected are the paths, with everything below, where a server tells about itself.
var introspected = []string{"/healthz", "/livez", "/readyz", "/metrics", "/debug", "/configz", "/flagz", "/statusz"}

// fairnessPath tells about priority and fairness. What clients want to know of that happens in the backends.
const fairnessPath = "/debug/api_priority_and_fairness"

// Introspects reports whether a server tells about itself at a path.
func Introspects(path string) bool {
	for _, root := range introspected {
		if _, ok := cutSegment(path, root); ok {
			return true
		}
	}
	return false
}

// RouteURL returns who answers a request: whom ?service= names where servers tell about themselves, and else Route of the path.
func (t *Table) RouteURL(u *url.URL) Target {
	if !strings.Contains(u.RawQuery, serviceParameter) || !Introspects(u.Path) {
		return t.Route(u.Path)
	}
	query := u.Query()
	if owner, known := serviceOwners[query.Get(serviceParameter)]; known {
		if owner == Aggregator {
			return Target{Owner: owner} // it has no others to choose from
		}
		return Target{Owner: owner, Replica: query.Get(replicaParameter)}
	}
	return t.Route(u.Path)
}

var serviceOwners = map[string]Owner{aggregatorService: Aggregator, upstream.Core: Core, upstream.Extensions: Extensions}

// KnowsService reports whether the query names no service, or one that there is.
func KnowsService(query url.Values) bool {
	_, known := serviceOwners[query.Get(serviceParameter)]
	return known || !query.Has(serviceParameter)
}
