// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import "net/url"

const (
	// serviceParameter says which service a request is about that asks a server about itself, and replicaParameter which
	// replica of that service: its address, host:port.
	serviceParameter = "service"
	replicaParameter = "replica"
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
	if u.RawQuery == "" || !Introspects(u.Path) {
		return t.Route(u.Path)
	}
	query := u.Query()
	switch owner := Owner(query.Get(serviceParameter)); owner {
	case Aggregator:
		return Target{Owner: owner} // it has no others to choose from
	case Core, Extensions:
		return Target{Owner: owner, Replica: query.Get(replicaParameter)}
	}
	target := t.Route(u.Path)
	target.UnknownService = query.Has(serviceParameter)
	return target
}
