// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package routing classifies requests (request.go): by the service that answers, and by how a request may be treated on its way.
//
// kube-apiserver hands a request down a chain of servers (aggregator, core, API extensions, 404)
// until one has it. Here the owner is looked up:
//
//	/api, /api/...                    core, unless the APIService "v1." names another server
//	/apis/GROUP/VERSION/...           the server that the APIService VERSION.GROUP names: a backend or an aggregated API server;
//	                                  without one: core for its groups, else extensions. No other backend ever gets a group of core
//	/apis, /apis/GROUP, /openapi/...  the aggregator, from what all servers offer
//	/healthz, /metrics, /debug/...    the aggregator, or the service that ?service= names
//	/debug/api_priority_and_fairness  core, likewise
//	anything else (/version, ...)     core
package routing

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// Owner is the server that answers a request. Tripod's services and additional backends have their names, which are DNS labels. The others
// have none.
type Owner string

const (
	// Aggregator serves the request itself.
	Aggregator Owner = "aggregator"
	// Core gets the request forwarded.
	Core Owner = "core"
	// Extensions gets the request forwarded.
	Extensions Owner = "extensions"
	// Aggregated is an API server that a user registered; Target.Handler proxies to it.
	Aggregated Owner = "aggregated API server"
	// Unknown means that the table is not complete yet. The answer is 503, because a garbage collector takes 404 for "gone".
	Unknown Owner = "not known yet"

	// local marks an APIService that names no server. It stays inside the table.
	local Owner = "no server"
)

// ServesCustomResources reports whether an owner is a partition of extensions, such as the default one.
func (o Owner) ServesCustomResources() bool {
	_, partition := addresses.PartitionOf(string(o))
	return partition || o == Extensions
}

// Additional reports whether an owner is a backend beside core and extensions, such as search or an API service of the user.
func (o Owner) Additional() bool {
	switch o {
	case "", Aggregator, Core, Aggregated, Unknown, local:
		return false
	}
	return !o.ServesCustomResources()
}

// Backends are the names of the backends.
type Backends []string

// Has reports whether there is a backend of that name.
func (b Backends) Has(name string) bool { return slices.Contains(b, name) }

// Of returns the name of the backend that an APIService names, or "" for the local form, which names none. It is false for an APIService
// of an aggregated API server.
func (b Backends) Of(service *apiregistrationv1.APIService) (name string, ours bool) {
	ref := service.Spec.Service
	switch {
	case ref == nil:
		return "", true
	case ref.Namespace == trust.Namespace && b.Has(ref.Name):
		return ref.Name, true
	}
	return "", false
}

// Target is where a request goes.
type Target struct {
	Owner Owner
	// Handler is the proxy to an aggregated API server, and else nil.
	Handler http.Handler
	// Replica is the address, host:port, of the only replica that may answer. If it is empty, any replica may.
	Replica string
	// UnknownService is set if the request asks about a service that does not exist.
	UnknownService bool
}

// apiRegistrationGroup is the one group that the aggregator serves itself.
const apiRegistrationGroup = "apiregistration.k8s.io"

// apiExtensionsGroup is the one built-in group that extensions serves.
const apiExtensionsGroup = "apiextensions.k8s.io"

// Table maps group-versions to owners. Its zero value is not usable, see NewTable. It is safe for
// concurrent use; a look-up takes no lock.
type Table struct {
	builtin  func(group string) bool
	backends Backends
	// custom returns the owner of a group that is neither built in nor has an APIService.
	custom func(group string) Owner

	mu      sync.Mutex // serialises writers
	current atomic.Pointer[snapshot]
}

// snapshot is immutable.
type snapshot struct {
	// services holds what APIServices say.
	services map[schema.GroupVersion]Target
	// groups counts the APIServices of each group.
	groups map[string]int
	// core holds the groups that core says it serves. It is nil until core has reported.
	core map[string]bool
	// complete is set when all APIServices were seen once.
	complete bool
	// resources holds what SetResources recorded.
	resources map[Owner]map[schema.GroupVersionResource]bool
	// longRunning holds what SetLongRunning recorded.
	longRunning map[Owner]map[schema.GroupVersionResource]bool
}

// NewTable returns an empty table. builtin reports whether a core of this Kubernetes version may serve a group, so that the table
// can route the group before core has reported. additional are the names of the backends beside core and extensions.
func NewTable(builtin func(group string) bool, additional ...string) *Table {
	t := &Table{
		builtin: builtin, backends: append(Backends{string(Core), string(Extensions)}, additional...),
		custom: func(string) Owner { return Extensions },
	}
	t.current.Store(&snapshot{})
	return t
}

// Divide sets which partition of extensions serves a group of custom resources. Call it before the table is used.
func (t *Table) Divide(partition func(group string) Owner) { t.custom = partition }

// Backends returns the names of all backends.
func (t *Table) Backends() Backends { return t.backends }

// update replaces the snapshot by a changed copy. What the copy refers to is that of the old snapshot, so change replaces it.
func (t *Table) update(change func(*snapshot)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := *t.current.Load()
	change(&next)
	t.current.Store(&next)
}

// changeServices replaces what APIServices say by a changed copy.
func (s *snapshot) changeServices(change func(map[schema.GroupVersion]Target)) {
	services := make(map[schema.GroupVersion]Target, len(s.services)+1)
	maps.Copy(services, s.services)
	change(services)
	s.services, s.groups = services, make(map[string]int, len(s.groups)+1)
	for gv := range services {
		s.groups[gv.Group]++
	}
}

// SetAPIService records the server of the group-version of an APIService. If that is an aggregated API server, the handler proxies to it.
func (t *Table) SetAPIService(service *apiregistrationv1.APIService, aggregated http.Handler) {
	gv := schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}
	name, ours := t.backends.Of(service)
	target := Target{Owner: Aggregated, Handler: aggregated}
	switch {
	case ours && name != "":
		target = Target{Owner: Owner(name)}
	case ours:
		// What is built in, and what core claims, decides at look-up.
		target = Target{Owner: local}
	}
	t.update(func(s *snapshot) {
		// Most calls are about a change of status. With 3,000 APIServices, a copy for each of them took a third of the processor time of an
		// aggregator while definitions were created.
		if ours && s.services[gv].Owner == target.Owner {
			return
		}
		s.changeServices(func(services map[schema.GroupVersion]Target) { services[gv] = target })
	})
}

// RemoveAPIService forgets the APIService of a group-version.
func (t *Table) RemoveAPIService(gv schema.GroupVersion) {
	t.update(func(s *snapshot) {
		s.changeServices(func(services map[schema.GroupVersion]Target) { delete(services, gv) })
	})
}

// SetComplete records that the table has all APIServices.
func (t *Table) SetComplete() {
	t.update(func(s *snapshot) { s.complete = true })
}

// SetCore records the groups of the group-versions that core says it serves.
func (t *Table) SetCore(served []schema.GroupVersion) {
	core := make(map[string]bool, len(served))
	for _, gv := range served {
		core[gv.Group] = true
	}
	t.update(func(s *snapshot) { s.core = core })
}

// SetResources records the resources of a backend, and subresources in the form pods/log.
func (t *Table) SetResources(owner Owner, resources map[schema.GroupVersionResource]bool) {
	t.update(func(s *snapshot) { s.resources = with(s.resources, owner, resources) })
}

// SetLongRunning records subresources of an additional backend whose requests last, in the form books/tail. They count where the table
// routes their group-version to that backend, and nowhere else.
func (t *Table) SetLongRunning(owner Owner, subresources map[schema.GroupVersionResource]bool) {
	t.update(func(s *snapshot) { s.longRunning = with(s.longRunning, owner, subresources) })
}

// with returns a copy of a map with one more entry.
func with[V any](m map[Owner]V, owner Owner, value V) map[Owner]V {
	all := make(map[Owner]V, len(m)+1)
	maps.Copy(all, m)
	all[owner] = value
	return all
}

// Route returns the owner of a path.
func (t *Table) Route(path string) Target {
	if rest, ok := cutSegment(path, "/apis"); ok {
		return t.routeGroup(rest)
	}
	if _, ok := cutSegment(path, "/api"); ok {
		return t.GroupVersion(schema.GroupVersion{Version: "v1"})
	}
	if path == "/" || path == "/index.html" {
		return Target{Owner: Aggregator}
	}
	if _, ok := cutSegment(path, "/openapi"); ok {
		return Target{Owner: Aggregator}
	}
	if _, ok := cutSegment(path, fairnessPath); ok {
		return Target{Owner: Core}
	}
	if Introspects(path) {
		return Target{Owner: Aggregator}
	}
	return Target{Owner: Core}
}

// routeGroup routes what follows /apis: nothing, /GROUP or /GROUP/VERSION/....
func (t *Table) routeGroup(rest string) Target {
	group, rest, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	version, _, _ := strings.Cut(rest, "/")
	switch {
	case group == apiRegistrationGroup:
		return Target{Owner: Aggregator}
	case group == "" && !t.current.Load().complete:
		// Clients take a group that the list of groups leaves out for one that does not exist.
		return Target{Owner: Unknown}
	case group == "":
		return Target{Owner: Aggregator}
	case version != "":
		return t.GroupVersion(schema.GroupVersion{Group: group, Version: version})
	}
	// Something may follow an empty version. That is no discovery document.
	if rest == "" && t.current.Load().groups[group] > 0 {
		return Target{Owner: Aggregator}
	}
	return t.unnamed(t.current.Load(), schema.GroupVersion{Group: group})
}

// GroupVersion returns the owner of a group-version.
func (t *Table) GroupVersion(gv schema.GroupVersion) Target {
	s := t.current.Load()
	target, ok := s.services[gv]
	if !ok || target.Owner == local || !t.mayHave(s, target.Owner, gv.Group) {
		return t.unnamed(s, gv)
	}
	return target
}

// mayHave reports whether an owner may have a group that an APIService gives it.
func (t *Table) mayHave(s *snapshot, owner Owner, group string) bool {
	switch owner {
	case Core, Aggregated:
		return true
	case Extensions:
		return !t.ofCore(s, group)
	}
	return !t.builtin(group) && !t.ofCore(s, group)
}

// ofCore reports whether a group is core's, whatever another backend or its APIService says.
func (t *Table) ofCore(s *snapshot, group string) bool {
	if s.core == nil {
		return t.builtin(group)
	}
	return s.core[group]
}

// unnamed routes a group-version for which no APIService names a server.
func (t *Table) unnamed(s *snapshot, gv schema.GroupVersion) Target {
	switch {
	case gv.Group == apiExtensionsGroup:
		return Target{Owner: Extensions}
	case t.ofCore(s, gv.Group):
		// All of a built-in group is core's, versions that it does not have included.
		return Target{Owner: Core}
	case s.services[gv].Owner == local:
		return Target{Owner: t.custom(gv.Group)}
	case t.builtin(gv.Group):
		return Target{Owner: Core} // which has disabled the group, and says so
	case !s.complete || s.core == nil:
		return Target{Owner: Unknown}
	}
	return Target{Owner: t.custom(gv.Group)}
}

// cutSegment cuts a prefix that ends at a segment boundary.
func cutSegment(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	if !ok || (rest != "" && rest[0] != '/') {
		return "", false
	}
	return rest, true
}
