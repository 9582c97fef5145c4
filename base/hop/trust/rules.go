// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Grant is a right of a service in its own name, and the reason for it.
type Grant struct {
	Rule rbacv1.PolicyRule
	Why  string
	// Except is what the rule leaves out.
	Except Except
}

// Except is what a rule with a wildcard leaves out. In RBAC, a wildcard includes subresources, such as logs and proxies.
type Except struct {
	// Subresources leaves out all subresources.
	Subresources bool
	// Resources leaves out these resources.
	Resources []schema.GroupResource
}

// Rights are what services may do in their own name, by user name. The entry of [AnyOther] is for every service without one.
type Rights map[string][]Grant

// Of returns the rights of a service. service is a user name.
func (r Rights) Of(service string) []Grant { return slices.Clone(r[r.grantee(service)]) }

// grantee returns the user name that r has for a service.
func (r Rights) grantee(service string) string {
	if _, listed := r[service]; listed || !isService(service) {
		return service
	}
	grantee := AnyOther
	for user := range r {
		family, ok := strings.CutSuffix(user, anyName)
		if ok && strings.HasPrefix(service, family) && len(user) > len(grantee) {
			grantee = user
		}
	}
	return grantee
}

// Allow reports whether a service may send a request. service is a user name.
func (r Rights) Allow(service string, request authorizer.Attributes) bool {
	return slices.ContainsFunc(r[r.grantee(service)], func(g Grant) bool { return g.allows(request) })
}

func (g *Grant) allows(request authorizer.Attributes) bool {
	return !g.Except.has(request) && allow([]rbacv1.PolicyRule{g.Rule}, request)
}

func (e *Except) has(request authorizer.Attributes) bool {
	asked := schema.GroupResource{Group: request.GetAPIGroup(), Resource: request.GetResource()}
	return e.Subresources && request.GetSubresource() != "" || slices.Contains(e.Resources, asked)
}

// AggregatorGrants returns the rights of the aggregator at every backend. The protocol between them needs these.
func AggregatorGrants() []Grant {
	return []Grant{
		{Rule: paths("/apis", "/openapi/*"), Why: "the aggregator merges discovery and OpenAPI of the backends"},
		{Rule: paths("/", "/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/metrics"),
			Why: "the aggregator sends requests to ready replicas"},
	}
}

func paths(paths ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: paths}
}
