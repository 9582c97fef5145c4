// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"net/url"

	"github.com/tripod-k8s/tripod/base/migration"
)

const (
	// serviceParameter names the service that a request asks about itself. replicaParameter is the address, host:port, of one of its
	// replicas.
	serviceParameter = "service"
	replicaParameter = "replica"
)

// introspected are the paths at which a server reports about itself, each with everything below.
var introspected = []string{"/healthz", "/livez", "/readyz", "/metrics", "/debug", "/configz", "/flagz", "/statusz"}

// fairnessPath reports the state of priority and fairness. It belongs to core: backends queue the requests of clients, not the aggregator.
const fairnessPath = "/debug/api_priority_and_fairness"

// Introspects reports whether a server reports about itself at a path.
func Introspects(path string) bool {
	for _, root := range introspected {
		if _, ok := cutSegment(path, root); ok {
			return true
		}
	}
	return false
}

// RouteURL returns the owner of a request. At introspection paths ?service= names the owner, and at those by which objects move, where it
// can be an API service or extensions. Everywhere else it is Route of the path.
func (t *Table) RouteURL(u *url.URL) Target {
	if _, ok := cutSegment(u.Path, migration.Root); ok {
		return t.routeMigration(u)
	}
	if u.RawQuery == "" || !Introspects(u.Path) {
		return t.Route(u.Path)
	}
	query := u.Query()
	switch name := query.Get(serviceParameter); {
	case name == string(Aggregator):
		return Target{Owner: Aggregator} // it cannot reach its other replicas
	case t.backends.Has(name):
		return Target{Owner: Owner(name), Replica: query.Get(replicaParameter)}
	}
	target := t.Route(u.Path)
	target.UnknownService = query.Has(serviceParameter)
	return target
}

// routeMigration routes a request about objects that move. They move while another server has their group, so no APIService leads there.
// Extensions has the definitions of all groups, so it takes back those of its partitions, too.
func (t *Table) routeMigration(u *url.URL) Target {
	query := u.Query()
	if !query.Has(serviceParameter) {
		return t.Route(u.Path)
	}
	name := query.Get(serviceParameter)
	if !t.backends.Has(name) || !Owner(name).Additional() && Owner(name) != Extensions {
		return Target{Owner: Aggregator, UnknownService: true}
	}
	return Target{Owner: Owner(name)}
}
